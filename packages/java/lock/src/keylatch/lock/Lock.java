package keylatch.lock;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * A lock of a keylatch server that is held, until it is released or lost: waited for in line, renewed in the background,
 * with a fence and a report of loss.
 *
 * <pre>{@code
 * try (Lock lock = Lock.acquire(client, new Options().ttl(Duration.ofSeconds(30)), "report")) {
 *     lock.lost().thenAccept(reason -> work.cancel(true));
 *     write(work, lock.fence());
 * }   // released here; throws LockException.Lost if it was lost
 * }</pre>
 */
public final class Lock implements AutoCloseable {
    private static final String CHANNEL = "__lock__:";
    private static final long LEAVE_NANOS = TimeUnit.SECONDS.toNanos(2); // for a server that does not answer
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1); // how often a session's connection is looked at
    private static final int RELEASES = 3; // how often a release is sent that is not answered
    private static final ScheduledThreadPoolExecutor TIMER = timer();

    private final Client client;
    private final Options options;
    private final List<String> names;
    private final Map<String, Long> fences = new LinkedHashMap<>();
    private final CompletableFuture<Void> granted = new CompletableFuture<>();
    private final CompletableFuture<String> lost = new CompletableFuture<>();
    private final BlockingQueue<String> asked = new LinkedBlockingQueue<>(); // why somebody may have lost it
    private final Thread keeper;
    private volatile Client.Connection connection; // of the keeper, and then of who releases; null when it is broken
    private boolean isKnown; // the server has bound the lock to that connection
    private final List<Client.Connection> stuck = new ArrayList<>(); // closed when another one has the lock
    private Long answerBy; // when the connection counts as stuck; null for never
    private volatile Object waitingId;
    private volatile boolean hasLeft;
    private Client.Subscription subscription;

    private String reason; // why it is lost
    private boolean released;
    private long validUntil;
    private long renewAt;
    private Future<?> deadline;

    /**
     * Waits in line for a lock, or for several: all of them are obtained at once, or none. A thread that is interrupted
     * leaves the line.
     *
     * @throws LockException.NotAcquired if the time to wait is over
     * @throws LockException.Deadlock if the wait would never end
     * @throws LockException if the server refuses otherwise
     * @throws IOException if the server cannot be reached
     */
    public static Lock acquire(Client client, Options options, String... names) throws IOException, InterruptedException {
        List<String> named = List.of(names);
        Lock lock = new Lock(client, options.forNames(named), named);
        lock.keeper.start();
        try {
            lock.granted.get();
            return lock;
        } catch (InterruptedException interrupted) {
            lock.leave();
            throw interrupted;
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof IOException broken) throw broken;
            if (cause instanceof RuntimeException refused) throw refused;
            throw new IllegalStateException(cause);
        }
    }

    private Lock(Client client, Options options, List<String> names) {
        this.client = client;
        this.options = options;
        this.names = names;
        keeper = new Thread(this::run, "keylatch-lock " + joined());
        keeper.setDaemon(true);
    }

    /** Increases from holder to holder. That of several locks is the greatest of them, and serves for each. */
    public long fence() {
        return fences.values().stream().mapToLong(Long::longValue).max().orElseThrow();
    }

    /** The fence of each name. */
    public Map<String, Long> fences() {
        return Map.copyOf(fences);
    }

    /** What the server knows the holder by. */
    public String token() {
        return options.token();
    }

    /**
     * Is completed when the lock is lost, with the reason: "expired", "disconnected" or a reason of NOTIFY. It is
     * cancelled when the lock is released before.
     */
    public CompletableFuture<String> lost() {
        return lost.copy();
    }

    /** Whether the lock is neither released nor known to be lost, and its time has not passed without a renewal. */
    public boolean isHeld() {
        expire();
        synchronized (this) {
            return reason == null && !released;
        }
    }

    /** Throws {@link LockException.Lost} once the lock is known to be lost, or its time has passed without a renewal. */
    public void check() {
        expire();
        String why = reason();
        if (why != null) throw new LockException.Lost(joined(), why);
    }

    /**
     * Releases the lock, or what is left of several, of which one is lost.
     *
     * @return whether it was still held
     */
    public boolean release() throws IOException {
        if (!end()) return false;
        awaitKeeper();
        boolean isLost = reason() != null;
        long now = System.nanoTime();
        long left = isLost ? LEAVE_NANOS : Math.max(validUntil - now, pauseNanos()); // then it has expired
        try {
            return (!isLost || names.size() > 1) && giveBack(now + left) && !isLost;
        } catch (IOException | LockException.Refused error) {
            if (isLost) return false; // nobody waits for the end of what is lost
            throw error;
        } finally {
            drop();
            closeStuck();
            lost.cancel(false);
        }
    }

    /** Releases the lock, and throws {@link LockException.Lost} if it was not held any more. */
    @Override
    public void close() throws IOException {
        boolean again;
        synchronized (this) {
            again = released;
        }
        if (again || release()) return;
        throw new LockException.Lost(joined(), Objects.requireNonNullElse(reason(), "expired"));
    }

    /** What the keeper does: it waits in line, and renews the lock until it is released or lost. */
    private void run() {
        try {
            grant(queue());
            try {
                subscription = client.subscribe(names.stream().map(CHANNEL::concat).toList(), heard());
            } catch (IOException | RuntimeException error) {
                giveBackIfPossible();
                throw error;
            }
            renew("expired"); // what was lost before that, nobody has told; and the time counts from before a command
            granted.complete(null);
            keep();
            if (hasLeft) giveBackIfPossible(); // it was granted in the meantime
            if (hasLeft || reason() != null) closeStuck(); // else after the release, since its end might end the session
        } catch (Throwable error) { // whatever it is, a caller waits to be told
            granted.completeExceptionally(error);
            drop();
            closeStuck();
        } finally {
            if (subscription != null) subscription.close();
        }
    }

    /** Queues, and asks again if the connection breaks, which takes up the place of a session. */
    private Object queue() throws IOException, InterruptedException {
        long began = System.nanoTime();
        connection = client.connect();
        long reached = System.nanoTime();
        for (int breaks = 1; ; breaks++) {
            try {
                Long left = options.answerNanos(System.nanoTime() - began);
                answerBy = left == null ? null : System.nanoTime() + left;
                connectIfNeeded();
                reached = System.nanoTime();
                if (isOver()) throw new IOException("nobody waits for the lock any more");
                waitingId = id();
                Object reply = call(options.acquire(names, Duration.ofNanos(System.nanoTime() - began)));
                if (reply == null) throw new LockException.NotAcquired(joined());
                isKnown = true;
                return reply;
            } catch (LockException.Refused refused) {
                throw options.refusal(names, refused);
            } catch (IOException broken) {
                drop();
                if (isOver() || !asksAgain(breaks, began, reached)) {
                    giveBackIfPossible();
                    throw broken;
                }
                if (breaks > 1) TimeUnit.NANOSECONDS.sleep(pauseNanos());
            }
        }
    }

    /**
     * Whether a request is sent again whose connection broke. The first time it always is: its reply may be all that
     * was lost. Later, while the wait lasts, and unless the server has not been reached for a TTL.
     */
    private boolean asksAgain(int breaks, long began, long reached) {
        if (breaks == 1) return true;
        long now = System.nanoTime();
        return options.waitsLongerThan(now - began) && now - reached < options.ttlNanos();
    }

    private Object id() throws IOException {
        try {
            return call(List.of("CLIENT", "ID"));
        } catch (LockException.Refused refused) {
            return null;
        }
    }

    /** Notes the fences. */
    private void grant(Object reply) {
        List<?> granted = listed(reply);
        for (int at = 0; at < names.size(); at++) fences.put(names.get(at), (Long) granted.get(at));
        hold(System.nanoTime());
    }

    /** Returns the fences of one lock or of several; that of one may be null. */
    private List<?> listed(Object reply) {
        return reply instanceof List<?> several ? several : Collections.nCopies(names.size(), reply);
    }

    /** Leaves the line, and gives back a lock that was granted meanwhile. */
    private void leave() {
        hasLeft = true;
        end();
        try (Client.Connection other = client.connect()) {
            Future<?> limit = TIMER.schedule(other::close, LEAVE_NANOS, TimeUnit.NANOSECONDS);
            if (waitingId != null) other.call(List.of("CLIENT", "UNBLOCK", waitingId.toString()));
            for (String name : names) other.call(options.release(name));
            limit.cancel(false);
        } catch (IOException | LockException.Refused error) {
            // Then the end of the connection ends the wait, and the lock expires.
        }
        interruptCall();
    }

    /** Ends the call that waits for a reply. */
    private void interruptCall() {
        Client.Connection waiting = connection;
        if (waiting != null) waiting.close();
    }

    /** Is told of the end of a lock of one of the names, and its fence. */
    private BiConsumer<String, String> heard() {
        return (channel, message) -> {
            String[] told = message.split(" ");
            Long ours = fences.get(channel.substring(CHANNEL.length()));
            if (told.length != 2 || !told[1].equals(String.valueOf(ours))) return;
            if (options.isShared()) asked.add(told[0]); // all readers have the same fence, so it may be another's end
            else lose(told[0]);
        };
    }

    private void keep() throws InterruptedException {
        while (!isOver()) {
            long left;
            synchronized (this) {
                left = renewAt - System.nanoTime();
            }
            boolean isLook = options.isSession() && left > LOOK_NANOS;
            String why = asked.poll(isLook ? LOOK_NANOS : left, TimeUnit.NANOSECONDS);
            if (isOver() || why == null && isLook && !isBroken()) continue;
            renew(why == null ? "expired" : why);
        }
    }

    /** Looks at the connection of a session, which has to be made again before its grace is over. */
    private boolean isBroken() {
        answerInTime(validUntil);
        try {
            call(List.of("PING"));
            return false;
        } catch (IOException broken) {
            return true;
        } catch (LockException.Refused refused) {
            return false;
        }
    }

    /** Renews each name; if one is not held any more, the lock is lost, and this is why. */
    private void renew(String why) {
        long since = System.nanoTime();
        boolean wasKnown = isKnown;
        answerInTime(validUntil);
        try {
            if (resume() && isRenewed() && bind()) {
                hold(since);
                closeStuck();
            } else {
                lose(options.isSession() && !isKnown ? "disconnected" : why);
            }
        } catch (IOException broken) {
            later(wasKnown ? 0 : pauseNanos());
        } catch (LockException.Refused refused) {
            later(pauseNanos()); // it says nothing of the lock: the next may be answered
        }
    }

    private boolean isRenewed() throws IOException {
        for (String name : names) {
            if (!fences.get(name).equals(call(options.renew(name)))) return false;
        }
        return true;
    }

    /**
     * Has the server move the lock to a new connection, before anything else is sent for it; returns whether it may
     * still be held. Locks of the same owner would move as well, away from connections that are well; see bind.
     */
    private boolean resume() throws IOException {
        if (isKnown || options.hasOwner()) return true;
        try {
            List<?> resumed = (List<?>) call(options.resume());
            isKnown = resumed.size() == names.size() || !options.isSession();
        } catch (LockException.Refused refused) {
            if (!Options.lacksCommand(refused)) throw refused;
            isKnown = !options.isSession(); // there is nothing more to be moved
        }
        return isKnown;
    }

    /** Has the server move a lock of an owner to a new connection, which knows of it by its renewal. */
    private boolean bind() throws IOException {
        if (options.isSession() && !isKnown) {
            List<?> found = listed(call(options.again(names)));
            boolean isHeld = true;
            for (int at = 0; at < names.size(); at++) {
                if (fences.get(names.get(at)).equals(found.get(at))) continue;
                isHeld = false;
                if (found.get(at) != null) call(options.release(names.get(at))); // it went in between; this is another
            }
            if (!isHeld) return false;
        }
        isKnown = true;
        return true;
    }

    /** Sends a command over the lock's connection, which is opened and closed as need be. */
    private Object call(List<String> words) throws IOException {
        connectIfNeeded();
        Client.Connection used = connection;
        try {
            return inTime(() -> used.call(words), late -> {});
        } catch (IOException broken) {
            if (isKnown && broken instanceof Calls.Stuck) { // its end might end the session
                stuck.add(used);
                connection = null;
            }
            drop();
            throw broken;
        }
    }

    private void connectIfNeeded() throws IOException {
        if (connection == null) connection = inTime(client::connect, Client.Connection::close);
    }

    private <T> T inTime(Calls.Call<T> call, Consumer<T> late) throws IOException {
        return answerBy == null ? call.run() : Calls.within(answerBy - System.nanoTime(), call, late);
    }

    /** Limits what follows, by a time at the latest, so that another connection can be tried before that. */
    private void answerInTime(long limit) {
        long now = System.nanoTime();
        answerBy = now + Math.min(options.patienceNanos(), limit - now);
    }

    private void closeStuck() {
        stuck.forEach(Client.Connection::close);
        stuck.clear();
    }

    private void drop() {
        Client.Connection broken = connection;
        connection = null;
        isKnown = false;
        if (broken != null) broken.close();
    }

    /** Releases each name; returns whether all were held. */
    private boolean giveBack(long limit) throws IOException {
        boolean all = true;
        for (String name : names) all &= giveBack(name, limit);
        return all;
    }

    /**
     * Releases a lock; returns whether it was held. A lock that is gone may have gone by a release whose reply is lost,
     * which is no loss if the lock was held when that was sent.
     */
    private boolean giveBack(String name, long limit) throws IOException {
        boolean isUnanswered = false;
        for (int attempt = 1; ; attempt++) {
            boolean wasHeld = isBelieved();
            boolean wasSent = false;
            answerInTime(limit);
            try {
                connectIfNeeded();
                wasSent = true;
                return Long.valueOf(1).equals(call(options.release(name))) || isUnanswered;
            } catch (IOException broken) {
                isUnanswered |= wasSent && wasHeld;
                if (attempt == RELEASES || attempt > 1 && !isBelieved()) throw broken;
                if (attempt > 1) LockSupport.parkNanos(pauseNanos());
            }
        }
    }

    /** Whether the lock is neither known to be lost nor beyond its time. */
    private synchronized boolean isBelieved() {
        return reason == null && System.nanoTime() - validUntil < 0;
    }

    private void giveBackIfPossible() {
        try {
            giveBack(System.nanoTime() + LEAVE_NANOS);
        } catch (IOException | LockException.Refused error) {
            // Then it expires.
        }
        drop();
    }

    /** Notes that the server held the lock for this client at a time, with its whole TTL to come. */
    private synchronized void hold(long since) {
        if (deadline != null) deadline.cancel(false);
        if (released || reason != null) return;
        validUntil = since + options.ttlNanos();
        renewAt = since + options.patienceNanos();
        deadline = TIMER.schedule(this::expire, validUntil - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    private synchronized void later(long nanos) {
        renewAt = System.nanoTime() + nanos;
    }

    private long pauseNanos() {
        return Math.min(TimeUnit.MILLISECONDS.toNanos(100), options.ttlNanos() / 10);
    }

    /** Loses the lock if its time is over. */
    private void expire() {
        boolean isOver;
        synchronized (this) {
            isOver = System.nanoTime() - validUntil >= 0;
        }
        if (isOver) lose("expired");
    }

    private void lose(String why) {
        Client.Connection used = connection; // the keeper may wait for a reply that never comes
        synchronized (this) {
            if (released || reason != null) return;
            reason = why;
        }
        asked.add(why); // wakes the keeper
        CompletableFuture.runAsync(() -> {
            lost.complete(why);
            if (used != null) used.close();
        });
    }

    /** Notes that the lock is to be released; returns false if it was before. */
    private synchronized boolean end() {
        if (released) return false;
        released = true;
        if (deadline != null) deadline.cancel(false);
        asked.add("released"); // wakes the keeper
        return true;
    }

    private void awaitKeeper() {
        boolean interrupted = false;
        while (keeper.isAlive()) {
            try {
                keeper.join();
            } catch (InterruptedException error) {
                interrupted = true;
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    private synchronized String reason() {
        return reason;
    }

    private synchronized boolean isOver() {
        return released || reason != null;
    }

    private String joined() {
        return names.stream().collect(Collectors.joining(", "));
    }

    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "keylatch-lock deadlines");
            thread.setDaemon(true);
            return thread;
        });
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }
}
