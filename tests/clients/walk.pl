# Uses a server through Redis.pm: KEYLATCH_SERVERS=host:port walk.pl
use strict;
use warnings;
use Redis;

my ($host, $port) = split /:/, $ENV{KEYLATCH_SERVERS};
my $server = "$host:$port";
my $client = Redis->new(server => $server, name => 'walk');

# Ends the walk unless both are the same.
sub same {
    my ($got, $expected, $what) = @_;
    die "FAILED: Redis.pm: $what: " . ($got // 'undef') . "\n" if ($got // 'undef') ne ($expected // 'undef');
}

same($client->ping, 'PONG', 'PING');
$client->flushall;
same($client->client_getname, 'walk', 'CLIENT GETNAME');
same($client->set('bytes', "\0\r\n\xff"), 'OK', 'SET');
same($client->get('bytes'), "\0\r\n\xff", 'GET');
same(scalar $client->get('missing'), undef, 'GET of nothing');
same($client->setnx('lock', 1) . $client->setnx('lock', 2), '10', 'SETNX');
same($client->getset('lock', 2), 1, 'GETSET');
same($client->expire('lock', 100) . $client->ttl('lock'), '1100', 'EXPIRE');
same(scalar eval { $client->incr('bytes') }, undef, 'INCR of a word');
die "FAILED: Redis.pm: $@" unless $@ =~ /not an integer/;

my @piped;
$client->incr('n', sub { push @piped, $_[0] }) for 1 .. 1000;
$client->wait_all_responses;
same("@piped", join(' ', 1 .. 1000), 'a pipeline');
$client->multi;
$client->incr('n');
$client->get('n');
same(join(',', $client->exec), '1001,1001', 'EXEC');
same($client->eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, 'n', 5), 1006, 'EVAL');
eval { $client->evalsha('f' x 40, 0) };
die "FAILED: Redis.pm: $@" unless $@ =~ /NOSCRIPT/;

my @heard;
my $listener = Redis->new(server => $server);
$listener->subscribe('news', sub { push @heard, "$_[1]:$_[0]" });
same($client->publish('news', 'hello'), 1, 'PUBLISH');
$listener->wait_for_messages(0.1) until @heard; # it returns when nothing has come for that long
same("@heard", 'news:hello', 'a message');
same($client->info->{loading} // 0, 0, 'INFO');
$client->quit;
print "Redis.pm $Redis::VERSION: well\n";
