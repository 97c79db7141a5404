package keylatch.lock.tests;

import static keylatch.lock.tests.Scenario.check;
import static keylatch.lock.tests.Scenario.until;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import keylatch.lock.Client;
import keylatch.lock.Lock;
import keylatch.lock.LockException;
import keylatch.lock.Options;

/**
 * Runs the list that the helpers of all languages run, whose file is the argument, and what it does not say: threads,
 * interruption, try-with-resources. KEYLATCH_SERVERS=host:port names the server, which has to be in test mode.
 */
final class Main {
    private final Server server = Server.named();
    private Server.Resp admin = server.connect();

    private Main() throws IOException {}

    /** A test. */
    private interface Test {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Main main = new Main();
        int passed = 0;
        int failed = 0;
        for (Map.Entry<String, Test> test : main.tests(Path.of(arguments[0])).entrySet()) {
            main.reset();
            try {
                test.getValue().run();
                passed++;
            } catch (AssertionError | Exception error) {
                failed++;
                System.out.println("FAILED: " + test.getKey());
                error.printStackTrace(System.out);
            }
        }
        main.reset();
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    private Map<String, Test> tests(Path list) throws IOException {
        Map<String, Test> tests = new LinkedHashMap<>();
        for (Object each : (List<?>) ((Map<?, ?>) Json.parse(Files.readString(list))).get("scenarios")) {
            Map<?, ?> scenario = (Map<?, ?>) each;
            if (scenario.containsKey("threads")) continue; // a lock knows none
            if (!Scenario.isFor(scenario)) continue;
            tests.put((String) scenario.get("name"), () -> scenario(scenario));
        }
        if (Scenario.IS_PLAIN || Scenario.FAILOVER != null) return tests;
        tests.put("threads exclude each other and their fences increase", this::exclusion);
        tests.put("a thread that is interrupted in line leaves it", this::interruption);
        tests.put("a thread that is interrupted as it is granted the lock leaves it free", this::interruptedAsGranted);
        tests.put("an owner acquires again when its interrupted wait has left the line", this::interruptedOwner);
        tests.put("the future of a loss is cancelled by a release", this::cancelled);
        tests.put("the end of a try statement releases, and throws if the lock was lost", this::resources);
        tests.put("the end of another reader's lock, which has the same fence, is no loss", this::anotherReader);
        tests.put("work is cancelled when the lock is lost", this::work);
        tests.put("a session whose connection is stuck is released before that is closed", this::stuckSession);
        tests.put("a thread that is interrupted while it waits to have a lock alone shares it on", this::interruptedUpgrade);
        tests.put("a thread that is interrupted as its lock is to be in another mode holds it", this::interruptedAsConverted);
        tests.put("a downgrade whose reply never comes is undone unless others share the lock", this::unknownDowngrade);
        tests.put("a request for another mode that comes late is undone", this::lateConversion);
        tests.put("a release ends the wait to have a lock alone", this::releasedUpgrade);
        tests.put("a release as the lock is to be in another mode finds it held", this::releasedAsConverted);
        tests.put("who cannot have a lock alone is told who shares it", this::sharers);
        tests.put("a session that was made again goes on in another mode", this::sessionAgain);
        tests.put("a lock of a server that is not there is an error", this::nobody);
        return tests;
    }

    private void scenario(Map<?, ?> scenario) throws Exception {
        List<?> steps = (List<?>) scenario.get("steps");
        if (!scenario.containsKey("moves") && !scenario.containsKey("stalls")) {
            new Scenario(server, admin, null).run(steps);
            return;
        }
        try (Moving moving = new Moving(server)) {
            new Scenario(server, admin, moving).run(steps);
        }
    }

    private void reset() throws IOException {
        if (Scenario.FAILOVER != null) admin = server.connect(); // the one before may have ended with its server
        admin.call("FLUSHALL");
        if (Scenario.IS_PLAIN) return;
        admin.call("CONFIG", "SET", "session-grace-ms", "0");
        if (Scenario.FAILOVER != null) return;
        admin.call("TEST.FAULT", "CLEAR");
        admin.call("TEST.TIME", "RUN");
    }

    private Lock acquire() throws Exception {
        return Lock.acquire(server, new Options(), "report");
    }

    private int waiters() throws IOException {
        return ((List<?>) admin.info("report").get("waiters")).size();
    }

    private void exclusion() throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(4);
        AtomicInteger inside = new AtomicInteger();
        AtomicLong last = new AtomicLong();
        Callable<Void> work = () -> {
            for (int section = 0; section < 20; section++) {
                try (Lock lock = acquire()) {
                    check(inside.incrementAndGet() == 1 && last.getAndSet(lock.fence()) < lock.fence(), "one at a time");
                    inside.decrementAndGet();
                }
            }
            return null;
        };
        for (Future<Void> done : workers.invokeAll(List.of(work, work, work, work))) done.get();
        workers.shutdown();
        check(admin.info("report") == null, "it is free");
    }

    /** Starts a thread that waits in line. */
    private Thread waiter(CompletableFuture<Lock> done) throws Exception {
        Thread thread = new Thread(() -> {
            try {
                done.complete(acquire());
            } catch (Exception error) {
                done.completeExceptionally(error);
            }
        });
        thread.start();
        until(() -> waiters() == 1);
        return thread;
    }

    private void interruption() throws Exception {
        try (Lock held = acquire()) {
            CompletableFuture<Lock> done = new CompletableFuture<>();
            Thread thread = waiter(done);
            thread.interrupt();
            thread.join();
            check(done.isCompletedExceptionally() && waiters() == 0, "it has left the line");
            held.check();
        }
    }

    private void interruptedAsGranted() throws Exception {
        for (int round = 0; round < 20; round++) {
            CompletableFuture<Lock> done = new CompletableFuture<>();
            Lock held = acquire();
            Thread thread = waiter(done);
            check(held.release(), "it was held");
            thread.interrupt();
            thread.join();
            if (!done.isCompletedExceptionally()) done.join().release();
            until(() -> admin.info("report") == null);
        }
    }

    /** A server whose third connection takes a while. */
    private Client slow() {
        AtomicInteger opened = new AtomicInteger();
        return new Client() {
            @Override
            public Connection connect() throws IOException {
                if (opened.getAndIncrement() == 2) LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(300));
                return server.connect();
            }

            @Override
            public Subscription subscribe(List<String> channels, BiConsumer<String, String> heard) throws IOException {
                return server.subscribe(channels, heard);
            }
        };
    }

    /** Counts the threads that wait for a lock, or hold one. */
    private static long keepers() {
        return Thread.getAllStackTraces().keySet().stream().filter(each -> each.getName().equals("keylatch-lock report"))
                .count();
    }

    private void interruptedOwner() throws Exception {
        Client slow = slow();
        Options options = new Options().owner("mine").ttl(Duration.ofMinutes(10));
        Lock held = acquire();
        Thread thread = new Thread(() -> {
            try {
                Lock.acquire(slow, options, "report");
            } catch (IOException | InterruptedException interrupted) {
                // as it is to be
            }
        });
        thread.start();
        until(() -> waiters() == 1);
        thread.interrupt();
        check(held.release(), "it was held");
        Lock next = Lock.acquire(slow, options, "report");
        until(() -> keepers() == 1); // that of this lock
        check(Long.valueOf(next.fence()).equals(admin.call("LOCK.FENCE", "report", "mine")), "it is held on");
        next.check();
        check(next.release(), "it was held");
    }

    private void cancelled() throws Exception {
        Lock lock = acquire();
        CompletableFuture<String> lost = lock.lost();
        check(lock.release() && !lock.isHeld(), "it was held");
        try {
            lost.join();
        } catch (CancellationException | CompletionException end) {
            lock.check();
            return;
        }
        throw new AssertionError("it is lost");
    }

    private void resources() throws Exception {
        try (Lock lock = acquire()) {
            check(lock.release(), "it was held"); // so that the end does nothing
        }
        List<String> lost = new ArrayList<>();
        try (Lock lock = acquire()) {
            admin.call("DEL", "report");
            lock.lost().join();
        } catch (LockException.Lost end) {
            lost.add(end.reason());
        }
        check(lost.equals(List.of("deleted")), lost);
    }

    private void work() throws Exception {
        ExecutorService worker = Executors.newSingleThreadExecutor();
        Lock lock = Lock.acquire(server, new Options().ttl(Duration.ofMinutes(10)), "report");
        Future<?> work = worker.submit(() -> {
            Thread.sleep(Scenario.PATIENCE.toMillis());
            return null;
        });
        lock.lost().thenAccept(reason -> work.cancel(true));
        admin.call("SET", "report", "other");
        check(lock.lost().get(60, TimeUnit.SECONDS).equals("overwritten"), "the reason");
        until(work::isCancelled);
        worker.shutdown();
        check(!lock.release(), "it was lost");
    }

    private void anotherReader() throws Exception {
        List<BiConsumer<String, String>> listeners = new ArrayList<>();
        Client listening = new Client() {
            @Override
            public Connection connect() throws IOException {
                return server.connect();
            }

            @Override
            public Subscription subscribe(List<String> channels, BiConsumer<String, String> heard) throws IOException {
                listeners.add(heard);
                return server.subscribe(channels, heard);
            }
        };
        Options options = new Options().shared().ttl(Duration.ofMinutes(10));
        try (Lock lock = Lock.acquire(listening, options, "report")) {
            listeners.get(0).accept("__lock__:report", "released " + lock.fence());
            check(lock.isHeld(), "its own was not released");
        }
    }

    private void stuckSession() throws Exception {
        AtomicBoolean isAway = new AtomicBoolean();
        CountDownLatch tried = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        Client away = new Client() {
            @Override
            public Connection connect() throws IOException {
                if (isAway.get()) {
                    tried.countDown();
                    throw new IOException("the server is away");
                }
                Connection connection = server.connect();
                return new Connection() {
                    @Override
                    public Object call(List<String> words) throws IOException {
                        if (isAway.get()) await(ended);
                        return connection.call(words);
                    }

                    @Override
                    public void close() {
                        connection.close();
                    }
                };
            }

            @Override
            public Subscription subscribe(List<String> channels, BiConsumer<String, String> heard) throws IOException {
                return server.subscribe(channels, heard);
            }
        };
        Lock lock = Lock.acquire(away, new Options().session().ttl(Duration.ofSeconds(6)), "report");
        isAway.set(true);
        check(tried.await(60, TimeUnit.SECONDS), "it has given up the connection that is stuck");
        isAway.set(false);
        boolean released = lock.release();
        ended.countDown();
        check(released, "it was held");
        until(() -> admin.info("report") == null);
    }

    private Lock share(Options options) throws Exception {
        return Lock.acquire(server, options.shared().ttl(Duration.ofMinutes(10)), "report");
    }

    private boolean isMode(String mode) throws IOException {
        return mode.equals(admin.info("report").get("mode"));
    }

    /** Starts a thread that waits to have a lock alone. */
    private Thread upgrader(Lock lock, CompletableFuture<Lock> done) throws Exception {
        Thread thread = new Thread(() -> {
            try {
                lock.upgrade(null);
                done.complete(lock);
            } catch (Exception error) {
                done.completeExceptionally(error);
            }
        });
        thread.start();
        until(() -> waiters() == 1);
        return thread;
    }

    private void interruptedUpgrade() throws Exception {
        CompletableFuture<Lock> done = new CompletableFuture<>();
        Lock lock = share(new Options());
        Lock other = share(new Options());
        Thread thread = upgrader(lock, done);
        thread.interrupt();
        thread.join();
        check(done.isCompletedExceptionally(), "it was interrupted");
        until(() -> waiters() == 0);
        check(other.release(), "it was held");
        Lock third = share(new Options().waitAtMost(Duration.ZERO));
        lock.check();
        check(lock.fence() == third.fence() && !lock.lost().isDone(), "it is shared");
        check(third.release(), "it was held");
        lock.upgrade(Duration.ZERO);
        check(isMode("exclusive") && lock.release(), "it was held alone");
    }

    private void interruptedAsConverted() throws Exception {
        for (int round = 0; round < 20; round++) {
            CompletableFuture<Lock> done = new CompletableFuture<>();
            Lock lock = share(new Options().session());
            Lock other = share(new Options());
            Thread thread = upgrader(lock, done);
            check(other.release(), "it was held");
            thread.interrupt();
            thread.join();
            until(() -> isMode(done.isCompletedExceptionally() ? "shared" : "exclusive"));
            lock.downgrade();
            lock.check();
            check(lock.release(), "it was held");
            check(admin.info("report") == null, "it is free");
        }
    }

    private void unknownDowngrade() throws Exception {
        for (boolean isShared : List.of(false, true)) {
            Lock lock = Lock.acquire(server, new Options().ttl(Duration.ofMinutes(10)), "report");
            long before = lock.fence();
            CompletableFuture<Lock> reader = CompletableFuture.supplyAsync(() -> {
                try {
                    return isShared ? share(new Options()) : null;
                } catch (Exception error) {
                    throw new CompletionException(error);
                }
            });
            until(() -> waiters() == (isShared ? 1 : 0));
            admin.call("TEST.FAULT", "ADD", "LOCK.ACQUIRE", "DELAY", "600000", "COUNT", "1");
            Thread thread = new Thread(() -> {
                try {
                    lock.downgrade();
                } catch (IOException | InterruptedException interrupted) {
                    // as it is to be
                }
            });
            thread.start();
            until(() -> isMode("shared"));
            thread.interrupt();
            thread.join();
            Lock other = reader.join();
            if (other == null) until(() -> isMode("exclusive"));
            until(() -> lock.fence() > before);
            check(other == null || lock.fence() == other.fence() && other.release(), "it is shared");
            lock.check();
            check(lock.release(), "it was held");
        }
    }

    private void lateConversion() throws Exception {
        Lock lock = share(new Options().renewEvery(Duration.ofMillis(20)));
        Lock other = share(new Options());
        try {
            lock.upgrade(Duration.ZERO);
            throw new AssertionError("it has the lock alone");
        } catch (LockException.NotAcquired refused) {
            check(other.release(), "it was held");
        }
        Object fence = admin.call("LOCK.ACQUIRE", "report", lock.token(), "CONVERT", "PX", "600000");
        check(fence instanceof Long alone && alone > lock.fence(), fence);
        until(() -> isMode("shared"));
        until(() -> admin.info("report").get("fence").equals(lock.fence()));
        lock.check();
        check(lock.release(), "it was held");
    }

    private void releasedUpgrade() throws Exception {
        CompletableFuture<Lock> done = new CompletableFuture<>();
        Lock lock = share(new Options());
        Lock other = share(new Options());
        Thread thread = upgrader(lock, done);
        check(lock.release(), "it was held");
        thread.join();
        try {
            done.join();
            throw new AssertionError("it has the lock alone");
        } catch (CompletionException ended) {
            check(ended.getCause().getMessage().equals("the lock is released"), ended);
        }
        check(waiters() == 0 && other.release() && admin.info("report") == null, "it is free");
    }

    private void releasedAsConverted() throws Exception {
        for (int round = 0; round < 20; round++) {
            CompletableFuture<Lock> done = new CompletableFuture<>();
            Lock lock = share(new Options().session());
            Lock other = share(new Options());
            Thread thread = upgrader(lock, done);
            check(other.release(), "it was held");
            check(lock.release(), "it was held");
            thread.join();
            until(() -> admin.info("report") == null);
        }
    }

    private void sharers() throws Exception {
        Lock one = share(new Options().meta("one"));
        Lock two = share(new Options().meta("two"));
        for (Map.Entry<Lock, String> each : Map.of(one, "two", two, "one").entrySet()) {
            try {
                each.getKey().upgrade(Duration.ZERO);
                throw new AssertionError("it has the lock alone");
            } catch (LockException.NotAcquired refused) {
                check(refused.meta().equals(each.getValue()), refused);
            }
        }
        check(one.release() && two.release(), "they were held");
    }

    private void sessionAgain() throws Exception {
        admin.call("CONFIG", "SET", "session-grace-ms", "60000");
        Lock lock = Lock.acquire(server, new Options().session(), "report");
        Object first = admin.info("report").get("client-id");
        admin.call("CLIENT", "KILL", "ID", first);
        until(() -> admin.info("report").get("client-id") instanceof Long now && !now.equals(first));
        admin.call("CONFIG", "SET", "session-grace-ms", "0");
        lock.downgrade();
        lock.upgrade(null);
        lock.check();
        check(lock.release(), "it was held");
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void nobody() throws Exception {
        try {
            Lock.acquire(new Server("127.0.0.1", 1), new Options(), "report");
        } catch (IOException error) {
            return;
        }
        throw new AssertionError("it holds a lock of nobody");
    }
}
