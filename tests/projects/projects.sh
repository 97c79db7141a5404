# The projects of run.sh: name, source, packages for their tests, and the command that runs them.
#
# A source is an archive of PyPI that holds its tests, or the tag of a repository. Suites are run as the projects' own
# documentation or CI does. What is left out needs another server: a module of Redis, Memcached. Those against clusters and
# sentinels are projects of their own, with the source of their base and the nodes of topology.sh.

projects='redis-py redis-py-cluster redis-py-sentinels ioredis-cluster node-redis-cluster
    redis-rs-cluster redis-rs-sentinels
    limits python-redis-lock rq huey django-redis cachelib aiocache walrus channels_redis pottery
    flask-session connect-redis bee-queue'
pytest='pytest -q --junitxml=$report'

kind[redis-py]=client version[redis-py]=8.1.0 source[redis-py]=pypi:redis
packages[redis-py]="-r dev_requirements.txt -e ."
server[redis-py]='--enable-debug-command yes'
suite[redis-py]="$pytest --ignore=tests/test_scenario --ignore=tests/test_asyncio/test_scenario \
    --ignore-glob='*cluster_maint_notifications*' --ignore-glob='*test_vsets*' -k 'not SSLCache and not SentinelCache' \
    -m 'not onlycluster and not redismod and not ssl and not replica and not cp_integration and \
        not multidb_integration'"

kind[redis-py-cluster]='client, cluster' version[redis-py-cluster]=8.1.0 base[redis-py-cluster]=redis-py
topology[redis-py-cluster]='cluster 16379'
suite[redis-py-cluster]="$pytest tests/test_cluster.py tests/test_cluster_transaction.py \
    tests/test_asyncio/test_cluster.py tests/test_asyncio/test_cluster_transaction.py \
    --redis-url=redis://localhost:16379/0 \
    -m 'not onlynoncluster and not redismod and not ssl and not cp_integration and not multidb_integration'"

kind[redis-py-sentinels]='client, Sentinel' version[redis-py-sentinels]=8.1.0 base[redis-py-sentinels]=redis-py
topology[redis-py-sentinels]='sentinels 26376 redis-py-test'
suite[redis-py-sentinels]="$pytest tests/test_sentinel.py tests/test_asyncio/test_sentinel.py \
    tests/test_sentinel_managed_connection.py tests/test_asyncio/test_sentinel_managed_connection.py \
    --redis-url=redis://localhost:26376/0 -m 'not redismod and not ssl'"

kind[ioredis-cluster]='client, cluster' version[ioredis-cluster]=6.0.0 source[ioredis-cluster]=git:redis/ioredis@v6.0.0
prepare[ioredis-cluster]='npm install --silent --no-audit --no-fund mocha-junit-reporter'
topology[ioredis-cluster]='cluster 3000'
suite[ioredis-cluster]='TS_NODE_TRANSPILE_ONLY=true NODE_ENV=test MOCHA_FILE=$report npx mocha \
    --reporter mocha-junit-reporter --exit "test/cluster/**/*.ts"'

kind[node-redis-cluster]='client, cluster' version[node-redis-cluster]=6.2.1
source[node-redis-cluster]=git:redis/node-redis@redis@6.2.1
prepare[node-redis-cluster]='npm install --silent --no-audit --no-fund --ignore-scripts && npx tsc --build packages/client'
topology[node-redis-cluster]='pool 6380 200'
suite[node-redis-cluster]='cd packages/client && PATH=$here/stand-in:$PATH MOCHA_FILE=$report npx mocha -r tsx \
    --reporter mocha-junit-reporter --exit --timeout 60000 --redis-version 7.0.15 \
    --grep "^Cluster| cluster\\." "./lib/cluster/**/*.spec.ts" "./lib/commands/*.spec.ts"'

# Its tests start their servers themselves, one after the other. The features are those that its tests of clusters and of
# sentinels use.
nextest='CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=0 cargo nextest run --locked -p redis --features \
cluster-async,sentinel,tokio-comp,smol-comp,connection-manager,tls-rustls,tls-rustls-insecure,tokio-rustls-comp,\
smol-rustls-comp,token-based-authentication,cache-aio,json'
kind[redis-rs-cluster]='client, cluster' version[redis-rs-cluster]=1.6.0
source[redis-rs-cluster]=git:redis-rs/redis-rs@redis-1.6.0
prepare[redis-rs-cluster]="$nextest --no-run --test test_cluster --test test_cluster_async --test test_sentinel &&
    printf '[profile.tcp.junit]\npath = \"junit.xml\"\n' >../junit.toml"
nextest="$nextest --offline --test-threads 1 --profile tcp --tool-config-file=projects:\$PWD/../junit.toml"
topology[redis-rs-cluster]='processes 20000'
suite[redis-rs-cluster]="NODE_TIMEOUT=5000 REDISRS_SERVER_BIN=\$server_of_nodes \
    $nextest --test test_cluster --test test_cluster_async; cp target/nextest/tcp/junit.xml \$report"

kind[redis-rs-sentinels]='client, Sentinel' version[redis-rs-sentinels]=1.6.0 base[redis-rs-sentinels]=redis-rs-cluster
suite[redis-rs-sentinels]="sentinel=\$(type -ap redis-server | tail -n 1) REDISRS_SERVER_BIN=\$here/stand-in/server.sh \
    $nextest --test test_sentinel; cp target/nextest/tcp/junit.xml \$report"

kind[limits]='rate limiter' version[limits]=5.8.0 source[limits]=pypi:limits
packages[limits]="'.[redis,async-redis,valkey,async-valkey]' hiro flaky pytest==9.0.2 \
    pytest-asyncio==1.3.0 pytest-benchmark pytest-cov pytest-lazy-fixtures pytest-mock PyYAML pymemcache \
    pymongo coredis"
suite[limits]="$pytest -p docker_services --no-cov -m '(redis or valkey) and not benchmark'"

kind[python-redis-lock]=locks version[python-redis-lock]=4.0.1 source[python-redis-lock]=pypi:python-redis-lock
packages[python-redis-lock]="pytest Django django-redis process-tests redis==8.1.0 gevent eventlet ."
suite[python-redis-lock]="PYTHONPATH=tests DJANGO_SETTINGS_MODULE=test_project.settings PYTHONUNBUFFERED=yes \
    $pytest --ignore=src"

kind[rq]=queue version[rq]=3.0.0 source[rq]=pypi:rq
packages[rq]='psutil pytest redis==8.1.0 .'
suite[rq]="RUN_SLOW_TESTS_TOO=1 $pytest"

kind[huey]=queue version[huey]=3.5.4 source[huey]=pypi:huey
packages[huey]='pytest redis==8.1.0 gevent peewee .'
suite[huey]="HUEY_SLOW_TESTS=1 $pytest huey/tests"

kind[django-redis]='cache, sessions' version[django-redis]=7.0.0 source[django-redis]=pypi:django-redis
packages[django-redis]="'.[lz4,msgpack,pyzstd]' 'pytest>=9' pytest-cov pytest-mock pytest-pythonpath pytest-xdist \
    'Django<6' redis==8.1.0"
server[django-redis]='--unixsocket /tmp/redis.sock --unixsocketperm 777'
suite[django-redis]="$pytest --no-cov -n 0 -k 'not sentinel'"

kind[cachelib]=cache version[cachelib]=0.17.0 source[cachelib]=pypi:cachelib
packages[cachelib]='pytest pytest-xprocess redis==8.1.0 .'
suite[cachelib]="$pytest tests/test_redis_cache.py"

kind[aiocache]=cache version[aiocache]=0.12.3 source[aiocache]=pypi:aiocache
packages[aiocache]="pytest==7.2.0 pytest-asyncio==0.20.3 pytest-cov==4.0.0 pytest-mock==3.10.0 redis==4.4.2 \
    marshmallow==3.19.0 aiomcache==0.8.0 'aiohttp>=3.8.3' msgpack ."
suite[aiocache]="$pytest -W ignore --no-cov tests/acceptance -k 'not memcached'"

kind[walrus]='collections, locks, limits' version[walrus]=0.9.8 source[walrus]=pypi:walrus
packages[walrus]='pytest redis==5.3.1 setuptools wheel cython'
prepare[walrus]='$venv/bin/pip install --quiet --no-build-isolation .'
suite[walrus]="$pytest -o python_files='[!_]*.py' walrus/tests"

kind[channels_redis]='channels, groups' version[channels_redis]=4.3.0 source[channels_redis]=pypi:channels_redis
packages[channels_redis]="'.[tests]' redis==8.1.0"
suite[channels_redis]="$pytest --ignore=tests/test_sentinel.py --ignore=tests/test_pubsub_sentinel.py"

kind[pottery]='collections, locks' version[pottery]=3.0.1 source[pottery]=git:brainix/pottery@v3.0.1
packages[pottery]='pytest==8.3.5 pytest-asyncio==0.25.3 redis==5.3.1 hiredis==3.1.0 mmh3==5.1.0 \
    uvloop==0.21.0 typing_extensions'
suite[pottery]="PYTHONPATH=. $pytest tests"

kind[flask-session]=sessions version[flask-session]=0.8.0 source[flask-session]=git:pallets-eco/flask-session@0.8.0
packages[flask-session]='pytest pytest-cov redis==8.1.0 msgspec cachelib .'
suite[flask-session]="$pytest --no-cov tests/test_redis.py tests/test_basic.py"

kind[connect-redis]=sessions version[connect-redis]=9.0.0 source[connect-redis]=git:tj/connect-redis@v9.0.0
prepare[connect-redis]='npm install --silent --no-audit --no-fund --no-package-lock'
suite[connect-redis]='npx vitest run --reporter=junit --outputFile=$report'

kind[bee-queue]=queue version[bee-queue]=2.0.0 source[bee-queue]=git:bee-queue/bee-queue@v2.0.0
prepare[bee-queue]='npm install --silent --no-audit --no-fund ava ava-spec tap-xunit'
suite[bee-queue]='npx ava --serial --timeout=30s --tap | npx tap-xunit >$report'
