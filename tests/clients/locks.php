<?php
// Proves of Symfony's lock store what locks.py proves of the locks of Python, through phpredis and Predis. Needs
// sorted sets.
//
//     KEYLATCH_SERVERS=host:port php locks.php

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

require 'Symfony/Component/Lock/autoload.php';
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

const WORKERS = 4;
const SECTIONS = 25;
const PATIENCE_S = 40;
[$host, $port] = explode(':', explode(' ', getenv('KEYLATCH_SERVERS'))[0]);

function phpredis(): Redis
{
    global $host, $port;
    $client = new Redis();
    $client->connect($host, (int) $port);
    return $client;
}

function predis(): Predis\Client
{
    global $host, $port;
    return new Predis\Client(['host' => $host, 'port' => (int) $port]);
}

/** Ends the program unless the claim holds. */
function holds(bool $claim, string $what): void
{
    if (!$claim) {
        fwrite(STDERR, "FAILED: Symfony's lock: $what\n");
        exit(1);
    }
}

/** Retries until the condition holds; the clock is real, and the wait is bounded. */
function until(callable $condition, string $what): void
{
    $deadline = microtime(true) + PATIENCE_S;
    while (!$condition()) {
        holds(microtime(true) < $deadline, "waited in vain for $what");
        usleep(random_int(500, 5000));
    }
}

/** Adds to a counter without care in several processes, each time under the lock. */
function exclusion(callable $connect): void
{
    phpredis()->set('counter', 0);
    $children = [];
    for ($each = 0; $each < WORKERS; $each++) {
        $child = pcntl_fork();
        if ($child === 0) {
            $client = phpredis();
            $factory = new LockFactory(new RedisStore($connect()));
            for ($section = 0; $section < SECTIONS; $section++) {
                $lock = $factory->createLock('contended', 60, false);
                until(fn () => $lock->acquire(), 'the lock');
                $client->set('counter', (int) $client->get('counter') + 1);
                $lock->release();
            }
            exit(0);
        }
        $children[] = $child;
    }
    foreach ($children as $child) {
        pcntl_waitpid($child, $status);
        holds(pcntl_wexitstatus($status) === 0, 'a worker failed');
    }
    holds((int) phpredis()->get('counter') === WORKERS * SECTIONS, 'sections overlap');
}

function takeover(RedisStore $store): void
{
    $factory = new LockFactory($store);
    [$first, $second] = [$factory->createLock('passing', 1.0, false), $factory->createLock('passing', 60, false)];
    $began = microtime(true);
    holds($first->acquire(), 'a free lock is refused');
    until(fn () => $second->acquire(), 'a lock whose time has passed');
    holds(microtime(true) - $began >= 0.998, 'taken over before its time');
    holds(!$first->isAcquired() && $second->isAcquired(), 'the wrong one has the lock');
    $second->release();
}

function refusal(RedisStore $store, Redis $client): void
{
    [$robbed, $holder] = [new Key('robbed'), new Key('robbed')];
    $store->save($robbed);
    try {
        $store->save($holder);
        holds(false, 'two have the lock');
    } catch (LockConflictedException $error) {
    }
    $client->flushAll();
    $store->save($holder);
    try {
        $store->putOffExpiration($robbed, 60);
        holds(false, 'extended the lock of another');
    } catch (LockConflictedException $error) {
    }
    $store->delete($robbed);
    holds($store->exists($holder) && !$store->exists($robbed), 'released the lock of another');
    $store->putOffExpiration($holder, 60);
    $store->delete($holder);
    holds($client->keys('*') === [], 'a lock is left behind');
}

function shared(RedisStore $store): void
{
    [$one, $two, $writer] = [new Key('shared'), new Key('shared'), new Key('shared')];
    $store->saveRead($one);
    $store->saveRead($two);
    try {
        $store->save($writer);
        holds(false, 'a writer beside readers');
    } catch (LockConflictedException $error) {
    }
    $store->delete($one);
    $store->save($two); // the only reader becomes the writer
    try {
        $store->saveRead($one);
        holds(false, 'a reader beside the writer');
    } catch (LockConflictedException $error) {
    }
    $store->delete($two);
}

foreach (['phpredis' => 'phpredis', 'Predis' => 'predis'] as $name => $connect) {
    $began = microtime(true);
    phpredis()->flushAll();
    $store = new RedisStore($connect());
    exclusion($connect);
    takeover($store);
    refusal($store, phpredis());
    shared($store);
    $taken = microtime(true) - $began;
    printf("Symfony's lock, %s: exclusion, takeover, refusal, readers and writers: %.1f s\n", $name, $taken);
}
