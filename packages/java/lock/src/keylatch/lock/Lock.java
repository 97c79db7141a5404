package keylatch.lock;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

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
    private Hold hold; // another one in another mode
    private final CompletableFuture<String> lost = new CompletableFuture<>();
    private boolean released;

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
        long began = System.nanoTime();
        List<String> named = List.of(names);
        Options complete = options.forNames(named);
        if (complete.hasOwner()) return Owners.acquire(client, complete, named, began);
        return first(Hold.acquire(client, complete, named, began));
    }

    /** Returns the first acquisition of a hold. */
    static Lock first(Hold hold) {
        Lock lock = new Lock(hold);
        hold.add(lock);
        return lock;
    }

    Lock(Hold hold) {
        this.hold = hold;
    }

    /**
     * Increases from holder to holder. That of several locks is the greatest of them, and serves for each. It is 0 on
     * Redis and Valkey, which have no fences.
     */
    public long fence() {
        return hold().fence();
    }

    /** The fence of each name. */
    public Map<String, Long> fences() {
        return hold().fences();
    }

    /** What the server knows the holder by. */
    public String token() {
        return hold().token();
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
        return !isReleased() && hold().isHeld();
    }

    /** Throws {@link LockException.Lost} once the lock is known to be lost, or its time has passed without a renewal. */
    public void check() {
        LockException.Lost loss = hold().loss();
        if (loss != null) throw loss;
    }

    /**
     * Shares the lock that is held alone, which takes no wait: readers that are next in line get it, and nobody writes in
     * between. The fence is another one from then on. If the thread is interrupted, or the server is not reached, the lock is
     * held in its former mode; it stays shared if others share it already.
     *
     * @throws IllegalArgumentException if the lock is one of several names, with permits or of an owner
     * @throws LockException if the lock is released or lost, or the server refuses
     * @throws IOException if the server cannot be reached
     */
    public void downgrade() throws IOException, InterruptedException {
        convert(true, Duration.ZERO);
    }

    /**
     * Has the lock that is shared alone, with another fence, once nobody else shares it: before all who wait in line. It is
     * shared until then, and renewed. A thread that is interrupted goes on to share it.
     *
     * @param wait for how long to wait; null for as long as it takes, zero for not at all
     * @throws LockException.NotAcquired if others share the lock until the time to wait is over
     * @throws LockException.Deadlock if one of them waits in the same way
     * @throws IllegalArgumentException if the lock is one of several names, with permits or of an owner
     * @throws LockException if the lock is released or lost, or the server refuses otherwise
     * @throws IOException if the server cannot be reached
     */
    public void upgrade(Duration wait) throws IOException, InterruptedException {
        convert(false, wait);
    }

    private void convert(boolean isShared, Duration wait) throws IOException, InterruptedException {
        long began = System.nanoTime();
        if (isReleased()) throw Hold.released();
        hold().awaitTurn(wait);
        Hold former = hold();
        Hold next = former.convert(isShared, wait, began);
        boolean isReplaced = replace(former, next);
        former.endTurn();
        if (isReplaced) return;
        if (isReleased()) former.awaitEnd(); // which releases this one, too
        next.discard();
        throw isReleased() ? Hold.released() : former.loss();
    }

    /** Refers to another hold from now on; returns false if the lock is released or lost. */
    private synchronized boolean replace(Hold former, Hold next) {
        if (released || !former.remove(this)) return false;
        hold = next;
        next.add(this);
        return true;
    }

    /**
     * Releases the lock, of several acquisitions of one owner with the last; or what is left of several locks, of which
     * one is lost.
     *
     * @return whether it was still held
     */
    public boolean release() throws IOException {
        Hold held;
        synchronized (this) {
            if (released) return false;
            released = true;
            held = hold;
        }
        try {
            return held.leave(this) ? held.release() : held.isHeld();
        } finally {
            lost.cancel(false);
        }
    }

    /** Releases the lock, and throws {@link LockException.Lost} if it was not held any more. */
    @Override
    public void close() throws IOException {
        if (isReleased() || release()) return;
        throw hold().lossAtRelease();
    }

    private synchronized Hold hold() {
        return hold;
    }

    private synchronized boolean isReleased() {
        return released;
    }

    /** Is called by the hold. */
    void tell(String reason) {
        lost.complete(reason);
    }
}
