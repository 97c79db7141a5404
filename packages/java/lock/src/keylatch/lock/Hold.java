package keylatch.lock;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/** What the server holds for one acquisition in one mode, or for those of one owner that share it. */
final class Hold {
    private static final String CHANNEL = "__lock__:";
    private static final long LEAVE_NANOS = TimeUnit.SECONDS.toNanos(2); // for a server that does not answer
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1); // how often a session's connection is looked at
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(50); // at least, between two tries without a line
    private static final int RELEASES = 3; // how often a release is sent that is not answered
    private static final ScheduledThreadPoolExecutor TIMER = timer();

    private final Client client;
    private volatile Options options;
    private final List<String> names;
    private final long began;
    private final Map<String, Long> fences = new ConcurrentHashMap<>();
    private final CompletableFuture<Void> granted = new CompletableFuture<>();
    private final CompletableFuture<Void> over = new CompletableFuture<>(); // when nothing is sent for it any more
    private final List<Lock> locks = new ArrayList<>(); // those that are not released
    private final BlockingQueue<String> asked = new LinkedBlockingQueue<>(); // why somebody may have lost it
    private final Semaphore turn; // of who changes the mode, until it is known
    private final Thread keeper;
    private volatile Hold former; // which has the lock in its present mode, until this one has it in another
    private volatile Hold next; // which asks for another mode, or has asked last
    private volatile Client.Connection connection; // of the keeper, and then of who releases; null when it is broken
    private boolean isPlain; // the server has no LOCK commands: the lock is a key
    private long since; // when it was granted
    private boolean isGranted;
    private boolean isKnown; // the server has bound the lock to that connection
    private volatile boolean hasMoved; // that connection is not the first one
    private final List<Client.Connection> stuck = new ArrayList<>(); // closed when another one has the lock
    private Long answerBy; // when the connection counts as stuck; null for never
    private volatile Object waitingId;
    private volatile boolean hasLeft;
    private Client.Subscription subscription;

    private String reason; // why it is lost
    private Instant lostAt;
    private Duration lostAfter;
    private boolean released;
    private long validUntil;
    private long renewAt;
    private Future<?> deadline;
    private boolean isReplaced; // another hold has the lock
    private boolean isRestoring; // the mode is to be what it was, as far as it may be another
    private boolean hasRestored; // so a request for another mode may come late

    /** Waits in line, for what is left of the time to wait; see {@link Lock#acquire}. */
    static Hold acquire(Client client, Options options, List<String> names, long began)
            throws IOException, InterruptedException {
        Hold hold = new Hold(client, options, names, began, null);
        try {
            hold.begin();
            return hold;
        } catch (InterruptedException interrupted) {
            hold.leave();
            hold.awaitKeeper(); // which would release what the owner acquires next
            throw interrupted;
        }
    }

    /**
     * Asks for the lock in another mode, when it is the caller's turn; returns the hold that has it from then on. If that
     * fails, this one has it as before, and ends the turn.
     */
    Hold convert(boolean isShared, Duration wait, long began) throws IOException, InterruptedException {
        Hold asker = new Hold(client, options.converted(isShared, wait), names, began, this);
        next = asker;
        try {
            asker.begin();
        } catch (InterruptedException interrupted) {
            if (restore(asker)) throw interrupted;
            asker.granted.join(); // soon: it has the lock already
            Thread.currentThread().interrupt();
        }
        return asker;
    }

    /** A hold by a new token, or that which another one has the lock with. */
    private Hold(Client client, Options options, List<String> names, long began, Hold former) {
        this.client = client;
        this.options = options;
        this.names = names;
        this.began = began;
        this.former = former;
        turn = former == null ? new Semaphore(1, true) : former.turn;
        keeper = new Thread(this::run, "keylatch-lock " + joined());
        keeper.setDaemon(true);
    }

    /** Starts the keeper, and waits until the lock is granted. */
    private void begin() throws IOException, InterruptedException {
        keeper.start();
        try {
            granted.get();
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof IOException broken) throw broken;
            if (cause instanceof RuntimeException refused) throw refused;
            throw new IllegalStateException(cause);
        }
    }

    long fence() {
        return fences.values().stream().mapToLong(Long::longValue).max().orElse(0);
    }

    Map<String, Long> fences() {
        return Map.copyOf(fences);
    }

    String token() {
        return options.token();
    }

    /** Adds an acquisition. */
    synchronized void add(Lock lock) {
        locks.add(lock);
        if (reason != null) lock.tell(reason);
    }

    /** Removes an acquisition that another hold has from now on; returns false if the lock is lost or released. */
    synchronized boolean remove(Lock lock) {
        return !released && reason == null && locks.remove(lock);
    }

    /** Adds an acquisition; returns null if the lock is lost or released. */
    Lock join() {
        if (!isHeld()) return null;
        synchronized (this) {
            if (released || reason != null) return null;
            Lock lock = new Lock(this);
            locks.add(lock);
            return lock;
        }
    }

    /** Ends an acquisition; returns whether it was the last one, so that the lock has to be released. */
    boolean leave(Lock lock) {
        expire();
        synchronized (this) {
            locks.remove(lock);
            return locks.isEmpty() && end();
        }
    }

    /**
     * Waits for a release that has begun, which would take along what is acquired with the same token; returns whether it
     * has ended.
     */
    boolean awaitRelease(long nanos) throws InterruptedException {
        synchronized (this) {
            if (!released) return true;
        }
        try {
            over.get(Math.max(0, nanos), TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException late) {
            return false;
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Waits until no other thread changes the mode; throws what keeps it from being changed. */
    void awaitTurn(Duration wait) throws InterruptedException {
        LockException.Lost loss = loss();
        if (loss != null) throw loss;
        if (names.size() > 1 || options.hasPermits() || options.hasOwner())
            throw new IllegalArgumentException("a lock of several names, with permits or of an owner keeps its mode");
        if (isPlain) throw new LockException.Unsupported(Options.CANNOT_CONVERT);
        Long limit = options.converted(true, wait).answerNanos(0);
        if (limit == null) turn.acquire();
        else if (!turn.tryAcquire(limit, TimeUnit.NANOSECONDS))
            throw new LockException.NotAcquired(joined(), Map.of(), options.token());
    }

    void endTurn() {
        turn.release();
    }

    /** Waits for the end of a release. */
    void awaitEnd() {
        over.join();
    }

    /** Whether nothing is sent for the lock any more. */
    boolean isEnded() {
        return over.isDone();
    }

    boolean isHeld() {
        expire();
        synchronized (this) {
            return reason == null && !released;
        }
    }

    /** Returns the error of a lost lock; null if it is not known to be lost. */
    LockException.Lost loss() {
        expire();
        synchronized (this) {
            return reason == null ? null : new LockException.Lost(joined(), reason, lostAt, lostAfter);
        }
    }

    static LockException released() {
        return new LockException("the lock is released");
    }

    /** Returns the error of a lock that was not held when it was released. */
    LockException.Lost lossAtRelease() {
        LockException.Lost loss = loss();
        Duration age = Duration.ofNanos(System.nanoTime() - since);
        return loss != null ? loss : new LockException.Lost(joined(), "expired", Instant.now(), age);
    }

    /** Releases the lock, or what is left of several, of which one is lost; returns whether it was still held. */
    boolean release() throws IOException {
        awaitKeeper();
        boolean isLost = reason() != null;
        long now = System.nanoTime();
        long left = isLost ? LEAVE_NANOS : Math.max(validUntil - now, pauseNanos()); // then it has expired
        // An owner may have acquired the others again.
        boolean isSent = !isLost || names.size() > 1 && !options.hasOwner();
        try {
            return isSent && giveBack(now + left) && !isLost;
        } catch (IOException | LockException.Refused error) {
            if (isLost) return false; // nobody waits for the end of what is lost
            throw error;
        } finally {
            drop();
            closeStuck();
            over.complete(null);
            interruptAsker();
        }
    }

    /** Releases a lock that is of no use, because it was released or lost before it was granted in another mode. */
    void discard() {
        end();
        try {
            release();
        } catch (IOException | LockException.Refused error) {
            // Then it expires.
        }
    }

    /** What the keeper does: it waits in line, and renews the lock until it is released or lost. */
    private void run() {
        try {
            grant(queue());
            try {
                if (!isPlain) subscription = client.subscribe(names.stream().map(CHANNEL::concat).toList(), heard());
            } catch (IOException | RuntimeException error) {
                giveBackIfPossible();
                throw error;
            }
            if (former != null) takeOver();
            renew("expired"); // what was lost before that, nobody has told; and the time counts from before a command
            isGranted = true;
            granted.complete(null);
            keep();
            endRestoring();
            if (hasLeft) giveBackIfPossible(); // it was granted in the meantime
            if (hasLeft || reason() != null) closeStuck(); // else after the release, since its end might end the session
        } catch (Throwable error) { // whatever it is, a caller waits to be told
            if (former == null) granted.completeExceptionally(error);
            else giveUp(error);
            drop();
            closeStuck();
        } finally {
            if (subscription != null) subscription.close();
        }
    }

    /** Queues, and asks again if the connection breaks, which takes up the place of a session. */
    private Object queue() throws IOException, InterruptedException {
        connection = client.connect();
        long reached = System.nanoTime();
        for (int breaks = 1; ; breaks++) {
            try {
                Long left = options.answerNanos(System.nanoTime() - began);
                answerBy = left == null ? null : System.nanoTime() + left;
                connectIfNeeded();
                reached = System.nanoTime();
                if (isUnwanted()) throw new IOException("nobody waits for the lock any more");
                waitingId = id();
                Object reply = ask();
                if (reply == null) throw notAcquired();
                isKnown = true;
                return reply;
            } catch (LockException.Refused refused) {
                throw options.refusal(names, refused);
            } catch (IOException broken) {
                drop();
                if (isUnwanted() || !asksAgain(breaks, began, reached)) {
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

    private Object ask() throws IOException, InterruptedException {
        try {
            return call(options.acquire(names, Duration.ofNanos(System.nanoTime() - began)));
        } catch (LockException.Refused refused) {
            if (!options.isPlain(names) || !Options.lacks(refused, "unknown command")) throw refused;
            isPlain = true;
            return poll();
        }
    }

    /** Sets the key as soon as it is free, on a server without LOCK commands. */
    private Object poll() throws IOException, InterruptedException {
        String name = names.get(0);
        while (true) {
            answerBy = System.nanoTime() + options.patienceNanos();
            if (isOver()) throw new IOException("nobody waits for the lock any more");
            // A request whose reply was lost may have set it.
            if (call(options.set(name)) != null || Long.valueOf(1).equals(call(options.renew(name, true)))) return 1L;
            long left = options.leftNanos(System.nanoTime() - began);
            if (left <= 0) return null;
            long pause = ThreadLocalRandom.current().nextLong(POLL_NANOS, 3 * POLL_NANOS);
            TimeUnit.NANOSECONDS.sleep(Math.min(pause, left));
        }
    }

    /** Tells who holds the lock, where the server has LOCK.INFO. */
    private LockException.NotAcquired notAcquired() {
        answerBy = System.nanoTime() + options.patienceNanos();
        try {
            if (isPlain) return notAcquired(names.get(0), Map.of("pttl", call(List.of("PTTL", names.get(0)))));
            for (String name : names) {
                Map<String, Object> info = LockException.fields(call(List.of("LOCK.INFO", name)));
                if (info.isEmpty() || "free".equals(LockException.text(info.get("mode")))) continue;
                return notAcquired(name, info);
            }
        } catch (IOException | LockException.Refused error) {
            // Then nothing more is known.
        }
        return notAcquired(joined(), Map.of());
    }

    private LockException.NotAcquired notAcquired(String name, Map<String, Object> info) {
        return new LockException.NotAcquired(name, info, options.token());
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
        for (int at = 0; at < names.size() && !isPlain; at++) fences.put(names.get(at), (Long) granted.get(at));
        long now = System.nanoTime();
        since = former == null ? now : former.since;
        hold(now);
    }

    /** Has the lock from now on. The keeper of the former hold has ended then, and released nothing. */
    private void takeOver() throws IOException {
        if (!former.cede(this)) throw new IOException("nobody waits for the lock any more");
        if (former.hasMoved) { // perhaps after the grant, so that it has to be moved from there
            isKnown = false;
            hasMoved = true;
        }
        stuck.addAll(former.stuck);
        if (former.connection != null) stuck.add(former.connection);
        former = null;
    }

    /** Ends the keeper without a release; returns false if the lock is lost or released, or its mode is not to be another. */
    private boolean cede(Hold asker) {
        synchronized (this) {
            if (isOver() || asker.hasLeft) return false;
            isReplaced = true;
            if (deadline != null) deadline.cancel(false);
        }
        asked.add("converted"); // wakes the keeper
        if (!hasMoved) interruptCall(); // else the end of the connection might end the session
        awaitKeeper();
        return true;
    }

    /** Ends a request for another mode; for as long as its outcome is not known, a session may be bound to its connections. */
    private void giveUp(Throwable error) {
        former.restore(this);
        try {
            over.get(options.patienceNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException | InterruptedException | ExecutionException late) {
            // Then a loss is not known yet.
        }
        boolean isReleased = former.isReleased();
        LockException.Lost loss = former.loss();
        granted.completeExceptionally(isReleased ? released() : loss != null ? loss : error);
        over.join();
        if (former.isReleased()) former.awaitEnd(); // which would find less than it releases
    }

    /**
     * Sees to it that the lock has its former mode again, whatever has become of a request for another one, and ends the
     * turn then; returns false if it is too late.
     */
    private boolean restore(Hold asker) {
        synchronized (this) {
            if (isReplaced) return false;
            if (asker.hasLeft) return true;
            asker.hasLeft = true;
            asker.end();
            isRestoring = true;
            hasRestored = true;
            renewAt = System.nanoTime();
        }
        if (isOver()) endRestoring();
        else asked.add("expired"); // wakes the keeper
        return true;
    }

    /** Notes that the lock has its former mode, or has ended. */
    private void endRestoring() {
        synchronized (this) {
            if (!isRestoring) return;
            isRestoring = false;
        }
        Hold asker = next;
        turn.release();
        asker.over.complete(null);
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
            for (String name : names) other.call(options.release(name, isPlain));
            limit.cancel(false);
        } catch (IOException | LockException.Refused error) {
            // Then the end of the connection ends the wait, and the lock expires.
        }
        interruptCall();
    }

    /** Ends the wait for another mode. */
    private void interruptAsker() {
        Hold asker = next;
        if (asker != null && asker.former != null) asker.interruptCall();
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
        long now = System.nanoTime();
        boolean wasKnown = isKnown;
        boolean isExtended = !isGranted || options.isExtended(now - since);
        answerInTime(validUntil);
        try {
            if (resume() && settle() && isRenewed(isExtended) && bind()) {
                if (isExtended) hold(now);
                else plan(now);
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

    /** Renews each name, or only asks whether it is held; returns whether all are. */
    private boolean isRenewed(boolean isExtended) throws IOException {
        for (String name : names) {
            Object reply = call(isExtended ? options.renew(name, isPlain) : options.look(name, isPlain));
            if (!fences.getOrDefault(name, 1L).equals(reply) && (reply == null || !mayBeConverted())) return false;
        }
        return true;
    }

    /** Whether another fence may be that of another mode. One that has come late is undone. */
    private boolean mayBeConverted() {
        if (!turn.tryAcquire()) return true;
        synchronized (this) {
            isRestoring = hasRestored;
        }
        if (!hasRestored) turn.release();
        return hasRestored;
    }

    /**
     * Asks for the lock in its former mode if it may have another; returns whether it is held. One that is shared and cannot
     * be had alone again stays so.
     */
    private boolean settle() throws IOException {
        synchronized (this) {
            if (!isRestoring) return true;
        }
        String name = names.get(0);
        Hold asker = next;
        Object fence;
        try {
            if (asker.waitingId != null) unblock(asker.waitingId);
            fence = call(options.converted(options.isShared(), null).again(names));
            if (fence == null && !options.isShared()) {
                fence = call(options.look(name, false));
                if (fence != null) options = options.converted(true, null);
            }
        } catch (LockException.Refused refused) {
            if (!Options.lacksCommand(refused) && !Options.lacks(refused, "syntax error")) throw refused;
            fence = fences.get(name); // the mode cannot be changed, and so was not
        }
        if (fence == null) return false;
        fences.put(name, (Long) fence);
        endRestoring();
        asker.interruptCall();
        return true;
    }

    private void unblock(Object id) throws IOException {
        try {
            call(List.of("CLIENT", "UNBLOCK", id.toString()));
        } catch (LockException.Refused refused) {
            // The user may not do this; the end of the connection ends the wait.
        }
    }

    /**
     * Has the server move the lock to a new connection, before anything else is sent for it; returns whether it may
     * still be held. Locks of the same owner would move as well, away from connections that are well; see bind.
     */
    private boolean resume() throws IOException {
        if (isKnown || options.hasOwner() || isPlain) return true;
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
                if (found.get(at) != null) call(options.release(names.get(at), false)); // it went in between; this is another
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
            if ((isKnown || former != null) && broken instanceof Calls.Stuck) { // its end might end the session
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
        hasMoved = true;
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
                return Long.valueOf(1).equals(call(options.release(name, isPlain))) || isUnanswered;
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

    /** Gives back what was granted; not another mode of a lock that was held before. */
    private void giveBackIfPossible() {
        if (former != null) return;
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
        plan(since);
        deadline = TIMER.schedule(this::expire, validUntil - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    /** Plans the next renewal; when their time is over, the lock is lost without one. */
    private synchronized void plan(long now) {
        renewAt = now + options.renewalNanos();
        if (!options.isExtended(renewAt - since)) renewAt = validUntil;
        if (isRestoring) renewAt = now;
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
        List<Lock> told;
        synchronized (this) {
            if (released || reason != null) return;
            reason = why;
            lostAt = Instant.now();
            lostAfter = Duration.ofNanos(System.nanoTime() - since);
            told = List.copyOf(locks);
        }
        asked.add(why); // wakes the keeper
        told.forEach(lock -> CompletableFuture.runAsync(() -> lock.tell(why))); // callbacks may wait for each other
        CompletableFuture.runAsync(() -> {
            if (used != null) used.close();
            interruptAsker();
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

    private synchronized boolean isReleased() {
        return released;
    }

    private synchronized boolean isOver() {
        return released || reason != null || isReplaced;
    }

    /** Whether nobody waits for the lock any more, or for its other mode. */
    private boolean isUnwanted() {
        Hold held = former;
        return isOver() || held != null && held.isOver();
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
