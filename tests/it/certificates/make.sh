# Makes keys and certificates in the current directory as people make them, by `openssl req -x509` and `openssl x509 -req`.
set -e

key() {
    [ -f "$1.key" ] || openssl genpkey -algorithm "${ALGORITHM:-EC}" ${OPTIONS:--pkeyopt ec_paramgen_curve:P-256} -out "$1.key" 2>&1
}

# Makes a self-signed certificate, of an authority unless the options say otherwise: NAME SUBJECT [option of req ..]
own() {
    name=$1 subject=$2
    shift 2
    key "$name"
    openssl req -x509 -new -key "$name.key" -subj "$subject" -days 30 -out "$name.crt" "$@"
}

# Makes a certificate of another issuer, of version 1 without extensions: NAME ISSUER [extension ..]
signed() {
    name=$1 issuer=$2
    shift 2
    key "$name"
    openssl req -new -key "$name.key" -subj "${SUBJECT:-/O=Test/CN=$name}" -out "$name.csr"
    if [ $# = 0 ]; then
        set --
    else
        printf '%s\n' "$@" > "$name.ext"
        set -- -extfile "$name.ext"
    fi
    openssl x509 -req -in "$name.csr" -CA "$issuer.crt" -CAkey "$issuer.key" -CAcreateserial -days "${DAYS:-30}" "$@" \
        -out "$name.crt" 2>&1
    # With the chain to its authority.
    cat "$name.crt" > "$name.pem"
    [ ! -f "$issuer.pem" ] || cat "$issuer.pem" >> "$name.pem"
}

# Authorities.
own ca "/O=Test/CN=Authority"
own forger "/O=Test/CN=Authority"
own no_ca "/CN=no authority" -addext basicConstraints=critical,CA:FALSE
key first
openssl req -new -key first.key -subj "/CN=first version" -out first.csr
openssl x509 -req -in first.csr -signkey first.key -days 30 -out first.crt 2>&1
key over
openssl req -new -key over.key -subj "/CN=over" -out over.csr
printf 'basicConstraints=critical,CA:TRUE\n' > over.ext
openssl x509 -req -in over.csr -signkey over.key -days -1 -extfile over.ext -out over.crt 2>&1
own self "/CN=self"
own stranger "/CN=stranger"

# Certificates as people make them.
signed plain ca basicConstraints=CA:FALSE
signed version_1 ca
ALGORITHM=RSA OPTIONS="-pkeyopt rsa_keygen_bits:2048" signed version_1_rsa ca
signed version_1_of_1 first
signed authority ca basicConstraints=critical,CA:TRUE
signed server ca keyUsage=digitalSignature,keyEncipherment nsCertType=server basicConstraints=CA:TRUE
signed client ca keyUsage=digitalSignature,keyEncipherment nsCertType=client basicConstraints=CA:TRUE
signed for_servers ca extendedKeyUsage=serverAuth basicConstraints=CA:TRUE
signed for_clients ca extendedKeyUsage=clientAuth basicConstraints=CA:TRUE
signed for_mail ca extendedKeyUsage=emailProtection basicConstraints=CA:TRUE
signed only_signs ca keyUsage=critical,keyCertSign basicConstraints=CA:TRUE
signed unknown ca 1.2.3.4=critical,DER:0500 basicConstraints=CA:TRUE

signed plain_only_signs ca keyUsage=critical,keyCertSign basicConstraints=CA:FALSE
signed plain_server ca nsCertType=server basicConstraints=CA:FALSE

# As Redis' gen-test-certs.sh makes them.
signed test_server ca keyUsage=digitalSignature,keyEncipherment nsCertType=server
signed test_client ca keyUsage=digitalSignature,keyEncipherment nsCertType=client

# As mkcert makes them.
ALGORITHM=RSA OPTIONS="-pkeyopt rsa_keygen_bits:3072" own development "/O=development CA/CN=somebody@here" \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign
here=subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1
export ALGORITHM=RSA OPTIONS="-pkeyopt rsa_keygen_bits:2048" SUBJECT="/O=development certificate/OU=somebody@here"
signed local development keyUsage=critical,digitalSignature,keyEncipherment extendedKeyUsage=serverAuth \
    authorityKeyIdentifier=keyid $here
signed local_client development keyUsage=critical,digitalSignature,keyEncipherment extendedKeyUsage=clientAuth,serverAuth \
    authorityKeyIdentifier=keyid $here
unset ALGORITHM OPTIONS SUBJECT

# As cert-manager makes them, without a subject.
own issuer "/CN=issuer" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign
SUBJECT=/ signed pod issuer keyUsage=critical,digitalSignature,keyEncipherment basicConstraints=critical,CA:FALSE \
    authorityKeyIdentifier=keyid subjectAltName=critical,DNS:localhost,DNS:keylatch.default.svc
SUBJECT=/ signed pod_both issuer keyUsage=critical,digitalSignature,keyEncipherment extendedKeyUsage=serverAuth,clientAuth \
    basicConstraints=critical,CA:FALSE authorityKeyIdentifier=keyid subjectAltName=critical,DNS:localhost
signed pod_issuer issuer keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign basicConstraints=critical,CA:TRUE
SUBJECT=/ signed pod_below pod_issuer keyUsage=critical,digitalSignature,keyEncipherment extendedKeyUsage=serverAuth,clientAuth \
    basicConstraints=critical,CA:FALSE authorityKeyIdentifier=keyid subjectAltName=critical,URI:spiffe://cluster/keylatch

# Invalid certificates.
DAYS=-1 signed expired_1 ca
DAYS=-1 signed expired_authority ca basicConstraints=CA:TRUE
signed forged_1 forger
signed forged_authority forger basicConstraints=CA:TRUE
signed of_no_ca no_ca basicConstraints=CA:FALSE
signed of_no_ca_1 no_ca
signed of_over over basicConstraints=CA:FALSE
signed of_over_1 over

# Longer chains.
signed between ca basicConstraints=critical,CA:TRUE keyUsage=keyCertSign
signed below_1 between
signed below_authority between basicConstraints=CA:TRUE
signed between_no_sign ca basicConstraints=critical,CA:TRUE keyUsage=digitalSignature
signed below_no_sign between_no_sign
signed below_no_sign_plain between_no_sign basicConstraints=CA:FALSE
signed between_mail ca basicConstraints=critical,CA:TRUE extendedKeyUsage=emailProtection
signed below_mail between_mail
signed below_version_1 version_1
signed below_version_1_plain version_1 basicConstraints=CA:FALSE
signed below_plain plain
signed last ca basicConstraints=critical,CA:TRUE,pathlen:0
signed below_last last
signed too_long last basicConstraints=critical,CA:TRUE
signed below_too_long too_long
DAYS=-1 signed between_over ca basicConstraints=critical,CA:TRUE
signed below_over between_over

for name in self stranger no_ca first; do cp "$name.crt" "$name.pem"; done
cat ca.crt self.crt no_ca.crt first.crt over.crt development.crt issuer.crt > trusted.crt
