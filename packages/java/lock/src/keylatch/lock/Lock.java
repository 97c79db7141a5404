package keylatch.lock;

import java.io.IOException;
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
    private final Hold hold;
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
        return hold.fence();
    }

    /** The fence of each name. */
    public Map<String, Long> fences() {
        return hold.fences();
    }

    /** What the server knows the holder by. */
    public String token() {
        return hold.token();
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
        return !isReleased() && hold.isHeld();
    }

    /** Throws {@link LockException.Lost} once the lock is known to be lost, or its time has passed without a renewal. */
    public void check() {
        LockException.Lost loss = hold.loss();
        if (loss != null) throw loss;
    }

    /**
     * Releases the lock, of several acquisitions of one owner with the last; or what is left of several locks, of which
     * one is lost.
     *
     * @return whether it was still held
     */
    public boolean release() throws IOException {
        synchronized (this) {
            if (released) return false;
            released = true;
        }
        try {
            return hold.leave(this) ? hold.release() : hold.isHeld();
        } finally {
            lost.cancel(false);
        }
    }

    /** Releases the lock, and throws {@link LockException.Lost} if it was not held any more. */
    @Override
    public void close() throws IOException {
        if (isReleased() || release()) return;
        throw hold.lossAtRelease();
    }

    private synchronized boolean isReleased() {
        return released;
    }

    /** Is called by the hold. */
    void tell(String reason) {
        lost.complete(reason);
    }
}
