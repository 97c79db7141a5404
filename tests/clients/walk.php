<?php
// Uses a server through phpredis and through Predis: KEYLATCH_SERVERS=host:port php walk.php
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

[$host, $port] = explode(':', getenv('KEYLATCH_SERVERS'));

/** Ends the walk unless both are the same. */
function same(string $what, $got, $expected): void
{
    if ($got !== $expected) {
        fwrite(STDERR, "FAILED: $what: " . var_export($got, true) . "\n");
        exit(1);
    }
}

$client = new Redis();
$client->connect($host, (int) $port);
$client->flushAll();
same('phpredis set', $client->set('bytes', "\0\r\n\xff"), true);
same('phpredis get', $client->get('bytes'), "\0\r\n\xff");
same('phpredis get of nothing', $client->get('missing'), false);
same('phpredis set nx', $client->set('lock', '1', ['nx', 'px' => 5000]), true);
same('phpredis set nx again', $client->set('lock', '2', ['nx']), false);
same('phpredis ttl', [$client->expire('lock', 100), $client->ttl('lock')], [true, 100]);
same('phpredis incr', $client->incr('bytes'), false);
same('phpredis error', substr($client->getLastError(), 0, 27), 'ERR value is not an integer');
$client->clearLastError();
$piped = $client->multi(Redis::PIPELINE);
for ($each = 0; $each < 1000; $each++) {
    $piped->incr('n');
}
same('phpredis pipeline', $piped->exec(), range(1, 1000));
same('phpredis multi', $client->multi()->incr('n')->get('n')->exec(), [1001, '1001']);
same('phpredis eval', $client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", ['n', 5], 1), 1006);
same('phpredis evalsha', $client->evalSha(str_repeat('f', 40)), false);
same('phpredis error', substr($client->getLastError(), 0, 8), 'NOSCRIPT');
$iterator = null;
same('phpredis scan', $client->scan($iterator, 'n*', 1000), ['n']);
echo 'phpredis ', phpversion('redis'), ": well\n";

$client = new Predis\Client(['host' => $host, 'port' => (int) $port]);
$client->flushall();
same('Predis set', (string) $client->set('bytes', "\0\r\n\xff"), 'OK');
same('Predis get', $client->get('bytes'), "\0\r\n\xff");
same('Predis set nx', (string) $client->set('lock', '1', 'PX', 5000, 'NX'), 'OK');
same('Predis set nx again', $client->set('lock', '2', 'NX'), null);
same('Predis ttl', [$client->expire('lock', 100), $client->ttl('lock')], [1, 100]);
try {
    $client->incr('bytes');
    same('Predis error', 'none', 'one');
} catch (Predis\Response\ServerException $error) {
    same('Predis error', $error->getErrorType(), 'ERR');
}
$numbers = range(1, 1000);
same('Predis pipeline', $client->pipeline(fn ($pipe) => array_map(fn () => $pipe->incr('n'), $numbers)), $numbers);
same('Predis transaction', $client->transaction(function ($all) {
    $all->incr('n');
    $all->get('n');
}), [1001, '1001']);
same('Predis eval', $client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, 'n', 5), 1006);
$loop = (new Predis\Client(['host' => $host, 'port' => (int) $port, 'read_write_timeout' => 30]))->pubSubLoop();
$loop->subscribe('news');
foreach ($loop as $message) {
    if ($message->kind === 'subscribe') {
        same('Predis publish', $client->publish('news', 'hello'), 1);
    } elseif ($message->kind === 'message') {
        same('Predis message', $message->payload, 'hello');
        $loop->unsubscribe();
    }
}
echo 'Predis ', Predis\Client::VERSION, ": well\n";
