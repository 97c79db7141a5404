# Uses a server through redis-rb: KEYLATCH_SERVERS=host:port walk.rb
require 'redis'

host, port = ENV.fetch('KEYLATCH_SERVERS').split(':')
place = { host: host, port: port.to_i }
client = Redis.new(**place, id: 'walk')

# Ends the walk unless both are the same.
def same(got, expected)
  raise "FAILED: redis-rb: #{got.inspect} and not #{expected.inspect}" unless got == expected
end

# Returns the error that the block ends with.
def refused
  yield
  raise 'FAILED: redis-rb: nothing was refused'
rescue Redis::CommandError => error
  error.message
end

same(client.ping, 'PONG')
client.flushall
same(client.set('bytes', "\0\r\n\xff".b), 'OK')
same(client.get('bytes').b, "\0\r\n\xff".b)
same(client.get('missing'), nil)
same([client.set('lock', 1, nx: true, px: 5000), client.set('lock', 2, nx: true)], [true, false])
same(client.getset('lock', 2), '1')
same([client.expire('lock', 100), client.ttl('lock')], [true, 100])
same(client.mapped_mget('lock', 'missing'), { 'lock' => '2', 'missing' => nil })
same(refused { client.incr('bytes') }[/not an integer/], 'not an integer')
same(refused { client.call(['NOSUCH']) }[/unknown command/], 'unknown command')

same(client.pipelined { |pipe| 1000.times { pipe.incr('n') } }, (1..1000).to_a)
same(client.multi { |multi| multi.incr('n'); multi.get('n') }, [1001, '1001'])
other = Redis.new(**place)
same(client.watch('n') { other.incr('n'); client.multi { |multi| multi.del('n') } }, nil)
same(client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", keys: ['n'], argv: [5]), 1007)
digest = client.script(:load, 'return {1, ARGV[1]}')
same(client.evalsha(digest, argv: ['two']), [1, 'two'])
same(refused { client.evalsha('f' * 40) }[/NOSCRIPT/], 'NOSCRIPT')
same(client.scan_each(match: 'n*').to_a, ['n'])

heard = nil
other.subscribe_with_timeout(30, 'news') do |on|
  on.subscribe { client.publish('news', 'hello') }
  on.message { |channel, text| heard = [channel, text]; other.unsubscribe }
end
same(heard, %w[news hello])
same(client.info['redis_mode'], 'standalone')
puts "redis-rb #{Redis::VERSION}: well"
