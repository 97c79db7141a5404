//! Stories about the libraries available to scripts: cjson, cmsgpack, struct, bit.

use super::script::tell;

#[test]
fn json_is_written_and_read_as_by_redis() {
    tell("json", JSON);
}

#[test]
fn messages_are_packed_and_unpacked_as_by_redis() {
    tell("messages", MESSAGES);
}

#[test]
fn structures_are_packed_and_unpacked_as_by_redis() {
    tell("structures", STRUCTURES);
}

#[test]
fn bits_are_what_they_are_in_redis() {
    tell("bits", BITS);
}

const JSON: &str = r##"
    EVAL "return cjson.encode({1,2,3})" 0
    EVAL "return cjson.encode({a=1})" 0
    EVAL "return cjson.encode({})" 0
    EVAL "return cjson.encode({{}})" 0
    EVAL "return cjson.encode('a\"b/c\\\\d')" 0
    EVAL "local s = '' for i=0,255 do s = s .. string.char(i) end return cjson.encode(s)" 0
    EVAL "return cjson.encode(1)" 0
    EVAL "return cjson.encode(1.5)" 0
    EVAL "return cjson.encode(0.1)" 0
    EVAL "return cjson.encode(1/3)" 0
    EVAL "return cjson.encode(1e100)" 0
    EVAL "return cjson.encode(123456789012345)" 0
    EVAL "return cjson.encode(1234567890123456)" 0
    EVAL "return cjson.encode(-0.00001)" 0
    EVAL "return cjson.encode(true) .. cjson.encode(false) .. cjson.encode(nil) .. cjson.encode(cjson.null)" 0
    EVAL "return cjson.encode(1/0)" 0
    EVAL "return cjson.encode(0/0)" 0
    EVAL "return cjson.encode(function() end)" 0
    EVAL "return cjson.encode({function() end})" 0
    EVAL "return cjson.encode({[true]=1})" 0
    EVAL "return cjson.encode({[{}]=1})" 0
    EVAL "return cjson.encode({[1.5]=1})" 0
    EVAL "return cjson.encode({[-1]=1})" 0
    EVAL "return cjson.encode({[0]=1})" 0
    EVAL "return cjson.encode({1,2,nil,4})" 0
    EVAL "return cjson.encode({[5]=1})" 0
    EVAL "return cjson.encode({[10]=1})" 0
    EVAL "return cjson.encode({[11]=1})" 0
    EVAL "return cjson.encode({[1000]=1})" 0
    EVAL "return cjson.encode()" 0
    EVAL "return cjson.encode(1,2)" 0
    EVAL "local t = {} t.t = t return cjson.encode(t)" 0
    EVAL "local t = {} for i=1,999 do t = {t} end return #cjson.encode(t)" 0
    EVAL "local t = {} for i=1,1000 do t = {t} end return #cjson.encode(t)" 0
    EVAL "return cjson.encode({a={b={c={1,2,{d='x'}}}}})" 0
    EVAL "return cjson.encode(redis.call('PING'))" 0
    EVAL "return cjson.encode(KEYS) .. cjson.encode(ARGV)" 1 a b c
    EVAL "return cjson.encode(coroutine.create(function() end))" 0
    EVAL "return cjson.decode('[1,2,3]')" 0
    EVAL "return cjson.decode('{\"a\":[1,{\"b\":\"c\"}]}').a[2].b" 0
    EVAL "return cjson.decode(' [ 1 , \"x\" , true , false , null ] ')" 0
    EVAL "return cjson.decode('\"text\"')" 0
    EVAL "return cjson.decode('12')" 0
    EVAL "return tostring(cjson.decode('1.5e3'))" 0
    EVAL "return tostring(cjson.decode('-12.25'))" 0
    EVAL "return tostring(cjson.decode('0x1F'))" 0
    EVAL "return tostring(cjson.decode('-0x1F'))" 0
    EVAL "return tostring(cjson.decode('012'))" 0
    EVAL "return tostring(cjson.decode('+12'))" 0
    EVAL "return tostring(cjson.decode('1.'))" 0
    EVAL "return tostring(cjson.decode('-.5'))" 0
    EVAL "return tostring(cjson.decode('.5'))" 0
    EVAL "return tostring(cjson.decode('1e'))" 0
    EVAL "return tostring(cjson.decode('-'))" 0
    EVAL "return tostring(cjson.decode('inf'))" 0
    EVAL "return tostring(cjson.decode('-Infinity'))" 0
    EVAL "return tostring(cjson.decode('nan')) ~= nil" 0
    EVAL "return tostring(cjson.decode('12345678901234567890'))" 0
    EVAL "return cjson.decode('true')" 0
    EVAL "return tostring(cjson.decode('null') == cjson.null)" 0
    EVAL "return type(cjson.null)" 0
    EVAL "return cjson.decode('\"\\\\u0041\\\\u00e9\\\\u20ac\\\\ud83d\\\\ude00\"')" 0
    EVAL "return cjson.decode('\"\\\\ud83d\"')" 0
    EVAL "return cjson.decode('\"\\\\ude00\"')" 0
    EVAL "return cjson.decode('\"\\\\ud83dx\"')" 0
    EVAL "return cjson.decode('\"\\\\u12\"')" 0
    EVAL "return cjson.decode('\"\\\\x\"')" 0
    EVAL "return cjson.decode('\"\\\\b\\\\t\\\\n\\\\f\\\\r\\\\/\\\\\\\\\"')" 0
    EVAL "return cjson.decode('\"open')" 0
    EVAL "return cjson.decode('')" 0
    EVAL "return cjson.decode('[')" 0
    EVAL "return cjson.decode('[1')" 0
    EVAL "return cjson.decode('[1,')" 0
    EVAL "return cjson.decode('[1,]')" 0
    EVAL "return cjson.decode('[,]')" 0
    EVAL "return cjson.decode('[1 2]')" 0
    EVAL "return cjson.decode('{')" 0
    EVAL "return cjson.decode('{}')" 0
    EVAL "return cjson.decode('{1:2}')" 0
    EVAL "return cjson.decode('{\"a\"}')" 0
    EVAL "return cjson.decode('{\"a\":}')" 0
    EVAL "return cjson.decode('{\"a\":1,}')" 0
    EVAL "return cjson.decode('{\"a\":1 \"b\":2}')" 0
    EVAL "return cjson.decode('{,}')" 0
    EVAL "return cjson.decode('tru')" 0
    EVAL "return cjson.decode('nul')" 0
    EVAL "return cjson.decode('xyz')" 0
    EVAL "return cjson.decode('1 2')" 0
    EVAL "return cjson.decode('[1]]')" 0
    EVAL "return cjson.decode('\\0x')" 0
    EVAL "return cjson.decode('x\\0')" 0
    EVAL "return cjson.decode('[1]\\0\\0')" 0
    EVAL "return cjson.decode('  }')" 0
    EVAL "return cjson.decode(nil)" 0
    EVAL "return cjson.decode()" 0
    EVAL "return cjson.decode('1','2')" 0
    EVAL "return cjson.decode(12)" 0
    EVAL "return cjson.decode({})" 0
    EVAL "return cjson.decode(string.rep('[',1000) .. string.rep(']',1000)) ~= nil" 0
    EVAL "return cjson.decode(string.rep('[',1001))" 0
    EVAL "local ok, e = pcall(cjson.decode,'[') return e" 0
    EVAL "local ok, e = pcall(cjson.encode,print) return e" 0
    EVAL "local ok, e = pcall(function() cjson.decode('[') end) return e" 0
    EVAL "return cjson.encode(cjson.decode('{\"a\":[],\"b\":{}}').a)" 0
    EVAL "local r = {cjson.encode_sparse_array()} return {tostring(r[1]),r[2],r[3]}" 0
    EVAL "local r = {cjson.encode_sparse_array(true,1,2)} return {tostring(r[1]),r[2],r[3],cjson.encode({[100]=1})}" 0
    EVAL "local r = {cjson.encode_sparse_array(false,2,10)} return {tostring(r[1]),r[2],r[3]}" 0
    EVAL "cjson.encode_sparse_array('x')" 0
    EVAL "cjson.encode_sparse_array(true,-1)" 0
    EVAL "cjson.encode_sparse_array(1,2,3,4)" 0
    EVAL "return {cjson.encode_max_depth(),cjson.decode_max_depth(),cjson.encode_number_precision()}" 0
    EVAL "cjson.encode_max_depth(2) return cjson.encode({{{}}})" 0
    EVAL "cjson.encode_max_depth(1000) return 1" 0
    EVAL "cjson.encode_max_depth(0)" 0
    EVAL "cjson.encode_max_depth('x')" 0
    EVAL "cjson.decode_max_depth(2) return cjson.decode('[[[]]]')" 0
    EVAL "cjson.decode_max_depth(1000) return 1" 0
    EVAL "cjson.encode_number_precision(3) return cjson.encode(1/3)" 0
    EVAL "cjson.encode_number_precision(14) return cjson.encode(1/3)" 0
    EVAL "cjson.encode_number_precision(15)" 0
    EVAL "local r = cjson.encode_invalid_numbers('null') return {r, cjson.encode({1/0,0/0})}" 0
    EVAL "local r = cjson.encode_invalid_numbers(true) return {tostring(r), cjson.encode({1/0,-1/0,0/0})}" 0
    EVAL "local r = cjson.encode_invalid_numbers('off') return tostring(r)" 0
    EVAL "cjson.encode_invalid_numbers('x')" 0
    EVAL "local r = cjson.decode_invalid_numbers(false) return {tostring(r), tostring(pcall(cjson.decode,'0x1')), tostring(pcall(cjson.decode,'nan')), tostring(pcall(cjson.decode,'-012'))}" 0
    EVAL "return cjson.decode('0x1')" 0
    EVAL "cjson.decode_invalid_numbers('on') return tostring(cjson.encode_keep_buffer())" 0
    EVAL "local c = cjson.new() c.encode_number_precision(2) return {c.encode(1/3), cjson.encode(1/3), type(c.new)}" 0
    EVAL "return {cjson._NAME, cjson._VERSION}" 0
"##;

const MESSAGES: &str = r##"
    EVAL "return cmsgpack.pack(1)" 0
    EVAL "return cmsgpack.pack(0,1,127,128,255,256,65535,65536,4294967295,4294967296,2^53,2^62)" 0
    EVAL "return cmsgpack.pack(-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649,-2^53)" 0
    EVAL "return cmsgpack.pack(1.5,0.1,1e300,1/0,-1/0)" 0
    EVAL "return cmsgpack.pack('',string.rep('x',31),string.rep('x',32))" 0
    EVAL "return cmsgpack.pack(string.rep('x',255))" 0
    EVAL "return cmsgpack.pack(string.rep('x',256))" 0
    EVAL "return #cmsgpack.pack(string.rep('x',65536))" 0
    EVAL "return cmsgpack.pack(true,false,nil)" 0
    EVAL "return cmsgpack.pack({})" 0
    EVAL "return cmsgpack.pack({1,2,3})" 0
    EVAL "return cmsgpack.pack({a=1})" 0
    EVAL "return cmsgpack.pack({1,2,nil,4})" 0
    EVAL "return cmsgpack.pack({[2]=1})" 0
    EVAL "return cmsgpack.pack({[0]=1})" 0
    EVAL "return cmsgpack.pack({[1.5]=1})" 0
    EVAL "local t = {} for i=1,16 do t[i]=i end return cmsgpack.pack(t)" 0
    EVAL "local t = {} for i=1,70000 do t[i]=1 end return #cmsgpack.pack(t)" 0
    EVAL "return cmsgpack.pack(function() end)" 0
    EVAL "return cmsgpack.pack(cjson.null)" 0
    EVAL "return cmsgpack.pack()" 0
    EVAL "local t = {} t.t = t return cmsgpack.pack(t)" 0
    EVAL "local a = {1} for i=1,20 do a = {a} end return cmsgpack.pack(a)" 0
    EVAL "return cmsgpack.unpack(cmsgpack.pack({1,2,{3,'x',true}}))" 0
    EVAL "return {cmsgpack.unpack(cmsgpack.pack(1,'two',{3}))}" 0
    EVAL "return cmsgpack.unpack(cmsgpack.pack({a={b='c'}})).a.b" 0
    EVAL "return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))" 0
    EVAL "return tostring(cmsgpack.unpack(cmsgpack.pack(2^53)))" 0
    EVAL "return tostring(cmsgpack.unpack('\xcf\xff\xff\xff\xff\xff\xff\xff\xff'))" 0
    EVAL "return tostring(cmsgpack.unpack('\xd3\xff\xff\xff\xff\xff\xff\xff\xfe'))" 0
    EVAL "return tostring(cmsgpack.unpack('\xce\xff\xff\xff\xff'))" 0
    EVAL "return cmsgpack.unpack('\xd9\x03abc')" 0
    EVAL "return cmsgpack.unpack('\xc1')" 0
    EVAL "return cmsgpack.unpack('\xc4\x01a')" 0
    EVAL "return cmsgpack.unpack('\xd4\x01a')" 0
    EVAL "return cmsgpack.unpack('\xd9\x05abc')" 0
    EVAL "return cmsgpack.unpack('\xdc\x00\x02\x01')" 0
    EVAL "return cmsgpack.unpack('\xdd\xff\xff\xff\xff\x01')" 0
    EVAL "return cmsgpack.unpack('\x81\xc0\x01')" 0
    EVAL "return cmsgpack.unpack('')" 0
    EVAL "return {cmsgpack.unpack('')}" 0
    EVAL "return cmsgpack.unpack()" 0
    EVAL "return cmsgpack.unpack(nil)" 0
    EVAL "return cmsgpack.unpack({})" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),1)}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),2)}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),3)}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),9)}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),-1)}" 0
    EVAL "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}" 0
    EVAL "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2,1)}" 0
    EVAL "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),0)}" 0
    EVAL "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),-1)}" 0
    EVAL "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3))}" 0
    EVAL "return {cmsgpack._NAME,cmsgpack._VERSION,cmsgpack._COPYRIGHT,cmsgpack._DESCRIPTION}" 0
"##;

const STRUCTURES: &str = r##"
    EVAL "return struct.pack('bBhHiIlL',-1,255,-2,65535,-3,4294967295,-4,5)" 0
    EVAL "return struct.pack('>bBhHiIlL',-1,255,-2,65535,-3,4294967295,-4,5)" 0
    EVAL "return struct.pack('<i3>i3',1,1)" 0
    EVAL "return struct.pack('i16',-1)" 0
    EVAL "return struct.pack('>I32',1)" 0
    EVAL "return struct.pack('i33',1)" 0
    EVAL "return struct.pack('i0',1)" 0
    EVAL "return struct.pack('i99999999999',1)" 0
    EVAL "return struct.pack('fd',1.5,-2.25)" 0
    EVAL "return struct.pack('>fd',1.5,-2.25)" 0
    EVAL "return struct.pack('s','abc')" 0
    EVAL "return struct.pack('c2','abc')" 0
    EVAL "return struct.pack('c0','abc')" 0
    EVAL "return struct.pack('c5','abc')" 0
    EVAL "return struct.pack('x')" 0
    EVAL "return struct.pack('!4bi',1,2)" 0
    EVAL "return struct.pack('!bd',1,2)" 0
    EVAL "return struct.pack('!3b',1)" 0
    EVAL "return struct.pack('T',7)" 0
    EVAL "return struct.pack('z')" 0
    EVAL "return struct.pack('i')" 0
    EVAL "return struct.pack('i','x')" 0
    EVAL "return struct.pack('i','7')" 0
    EVAL "return struct.pack('b',300)" 0
    EVAL "return struct.pack('i',1.9)" 0
    EVAL "return struct.pack('L',2^64)" 0
    EVAL "return struct.pack('L',2^63)" 0
    EVAL "return struct.pack('l',-2^63)" 0
    EVAL "return struct.pack()" 0
    EVAL "return struct.pack('')" 0
    EVAL "return struct.pack('b b',1,2)" 0
    EVAL "return {struct.unpack('bBhHiI',struct.pack('bBhHiI',-1,255,-2,65535,-3,4294967295))}" 0
    EVAL "return {struct.unpack('>hi',struct.pack('>hi',-2,77))}" 0
    EVAL "return {struct.unpack('s',struct.pack('s','abc'))}" 0
    EVAL "return {struct.unpack('s','abc')}" 0
    EVAL "return {struct.unpack('c3','abcdef')}" 0
    EVAL "return {struct.unpack('bc0','\x03abcdef')}" 0
    EVAL "return {struct.unpack('bc0','\x09abc')}" 0
    EVAL "return {struct.unpack('c0','abc')}" 0
    EVAL "return {struct.unpack('i','abc')}" 0
    EVAL "return {struct.unpack('b','abc',2)}" 0
    EVAL "return {struct.unpack('b','abc',4)}" 0
    EVAL "return {struct.unpack('b','abc',0)}" 0
    EVAL "return {struct.unpack('b','abc',-1)}" 0
    EVAL "return {struct.unpack('xb','ab')}" 0
    EVAL "return {struct.unpack('i16',struct.pack('i16',-5))}" 0
    EVAL "return {struct.unpack('i3',struct.pack('i3',-5))}" 0
    EVAL "local d = struct.unpack('d',struct.pack('d',0.1)) return tostring(d)" 0
    EVAL "local f = struct.unpack('>f',struct.pack('>f',0.5)) return tostring(f)" 0
    EVAL "return {struct.unpack('!4bi',struct.pack('!4bi',1,2))}" 0
    EVAL "return {struct.unpack('')}" 0
    EVAL "return {struct.unpack('','')}" 0
    EVAL "return {struct.unpack('z','a')}" 0
    EVAL "return {struct.size('bBhHiIlLfdTx'),struct.size('c10'),struct.size('!4bi'),struct.size('>i3 i5')}" 0
    EVAL "return struct.size('s')" 0
    EVAL "return struct.size('c0')" 0
    EVAL "return struct.size('?')" 0
    EVAL "return struct.size('z')" 0
    EVAL "return struct.size()" 0
"##;

const BITS: &str = r##"
    EVAL "return {bit.tobit(2^31),bit.tobit(-1),bit.tobit(2^32),bit.tobit(2^40+5),bit.tobit(1.5),bit.tobit(2.5),bit.tobit(-2^31-1)}" 0
    EVAL "return {bit.bnot(0),bit.bnot(-1),bit.band(0xff,0x0f,0x3c),bit.bor(1,2,4),bit.bxor(5,3,1)}" 0
    EVAL "return {bit.lshift(1,31),bit.lshift(1,32),bit.lshift(1,33),bit.rshift(-1,28),bit.arshift(-8,2),bit.rol(0x12345678,8),bit.ror(0x12345678,8),bit.rol(1,0)}" 0
    EVAL "return bit.bswap(0x12345678)" 0
    EVAL "return {bit.tohex(255),bit.tohex(255,4),bit.tohex(255,-4),bit.tohex(-1),bit.tohex(1,0),bit.tohex(1,20),bit.tohex(0xABCDEF,-8)}" 0
    EVAL "return bit.band('12',10)" 0
    EVAL "return bit.band('0x1F',0xff)" 0
    EVAL "return bit.band('x',1)" 0
    EVAL "return bit.band()" 0
    EVAL "return bit.band(1,nil)" 0
    EVAL "return bit.band({},1)" 0
    EVAL "return bit.bnot()" 0
    EVAL "return bit.lshift(1)" 0
    EVAL "return bit.tohex()" 0
    EVAL "return bit.band(1/0,1)" 0
"##;
