# Runs Sidekiq with its own process, and proves that each job runs once, later, again or never.
#
#     KEYLATCH_SERVERS=host:port ruby jobs.rb     Needs lists, hashes, sets and sorted sets.
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/scheduled'
require 'tempfile'

HOST, PORT = ENV.fetch('KEYLATCH_SERVERS').split.first.split(':')
PATIENCE_S = 40
Redis.silence_deprecations = true # of calls that Sidekiq makes
DELAY_S = 1 # of jobs for later
MANY = 20
place = { url: "redis://#{HOST}:#{PORT}/0" }
Sidekiq.configure_client { |config| config.redis = place }
Sidekiq.configure_server { |config| config.redis = place }
Sidekiq.options[:poll_interval_average] = 0.2
COUNTERS = Redis.new(host: HOST, port: PORT.to_i, db: 15)

# Counts a run; returns how many there were with this one.
def count(name) = COUNTERS.incr("ran:#{name}")
def runs(name) = COUNTERS.get("ran:#{name}").to_i

class Add
  include Sidekiq::Worker

  def perform(a, b)
    count("add:#{a}")
    COUNTERS.set("sum:#{a}", a + b)
  end
end

class FailTwice
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 0.01 }

  def perform
    raise 'fails on purpose' if count('fail_twice') < 3
  end
end

class Dead
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform = raise('as it is meant to')
end

class Late
  include Sidekiq::Worker
  sidekiq_options queue: 'high'

  def perform
    count('late')
    COUNTERS.set('late at', Time.now.to_f)
  end
end

def same(got, expected)
  raise "FAILED: Sidekiq: #{got.inspect} and not #{expected.inspect}" unless got == expected
end

# Waits for what the other process does; the clock is real, and the wait is bounded.
def till(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
  until yield
    raise "FAILED: Sidekiq: waited in vain for #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    sleep 0.01
  end
end

def walk
  began = Time.now.to_f
  COUNTERS.flushall
  (0...MANY / 2).each { |number| Add.perform_async(number, 1) }
  Sidekiq::Client.push_bulk('class' => Add, 'args' => (MANY / 2...MANY).map { |number| [number, 1] })
  removed = Add.perform_async(100, 1)
  queue = Sidekiq::Queue.new
  same([queue.size, queue.find_job(removed).delete, queue.size], [MANY + 1, true, MANY])
  output = Tempfile.create('sidekiq').path
  worker = spawn('sidekiq', '-r', __FILE__, '-c', '3', '-q', 'high,2', '-q', 'default', %i[out err] => output)
  begin
    till('every job') { (0...MANY).all? { |number| runs("add:#{number}") == 1 } }
    same(COUNTERS.mget((0...MANY).map { |number| "sum:#{number}" }), (1..MANY).map(&:to_s))
    FailTwice.perform_async
    later = Time.now.to_f
    Late.perform_in(DELAY_S)
    kept = Late.perform_in(3600)
    Dead.perform_async
    till('a dead job') { Sidekiq::DeadSet.new.size == 1 }
    same(Sidekiq::DeadSet.new.first.item['error_message'], 'as it is meant to')
    till('a job for later') { COUNTERS.get('late at') }
    same(runs('late'), 1)
    raise 'FAILED: Sidekiq: a job ran before its time' if COUNTERS.get('late at').to_f < later + DELAY_S

    same([Sidekiq::ScheduledSet.new.size, Sidekiq::ScheduledSet.new.find_job(kept).delete], [1, true])
    till('a retry') { Sidekiq::RetrySet.new.size == 1 || runs('fail_twice') >= 2 }
    # What waits for its next attempt need not wait out the jitter.
    till('the last retry') { Sidekiq::RetrySet.new.retry_all; runs('fail_twice') == 3 }
    till('a heartbeat') { Sidekiq::ProcessSet.new.size == 1 }
  ensure
    Process.kill('TERM', worker)
    status = Process.wait2(worker).last
    warn File.read(output) if $!
    File.unlink(output)
  end
  same(status.exitstatus, 0)
  # Counts are written by a heartbeat and at the end.
  stats = Sidekiq::Stats.new
  same([stats.processed, stats.failed, stats.enqueued, stats.retry_size], [MANY + 5, 3, 0, 0])
  same((0...MANY).map { |number| runs("add:#{number}") }, [1] * MANY)
  puts "Sidekiq #{Sidekiq::VERSION}: each job once, queues, removal, retry, later, dead jobs, statistics: " \
       "#{(Time.now.to_f - began).round(1)} s"
end

walk if $PROGRAM_NAME == __FILE__
