package keylatch.lock;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** The locks of owners, who hold a lock once however often they acquire it by the same client. */
final class Owners {
    private static final Map<Key, Share> SHARES = new HashMap<>();

    private Owners() {}

    /** One lock of an owner. */
    private record Key(Client client, String owner, Set<String> names, String mode) {
        /** Returns a name that other locks of the owner have as well; null if there is none. */
        String shares(Key other) {
            if (!client.equals(other.client) || !owner.equals(other.owner) || names.equals(other.names)) return null;
            return names.stream().filter(other.names::contains).findFirst().orElse(null);
        }
    }

    /** What its acquisitions have in common: whose turn it is to acquire, and what is held. */
    private static final class Share {
        final Semaphore turn = new Semaphore(1, true);
        int users; // those who acquire; of SHARES
        volatile Hold hold;

        boolean isUsed() {
            return users > 0 || hold != null && !hold.isEnded();
        }
    }

    static Lock acquire(Client client, Options options, List<String> names, long began)
            throws IOException, InterruptedException {
        Share share = use(new Key(client, options.token(), Set.copyOf(names), options.mode()));
        try {
            long left = options.leftNanos(System.nanoTime() - began);
            boolean isTurn = left > 0 ? share.turn.tryAcquire(left, TimeUnit.NANOSECONDS) : share.turn.tryAcquire();
            if (!isTurn) throw new LockException.NotAcquired(names.get(0), Map.of(), options.token());
            try {
                Hold former = share.hold;
                if (former != null) {
                    Lock lock = former.join();
                    if (lock != null) return lock;
                    if (!former.awaitRelease(options.leftNanos(System.nanoTime() - began)))
                        throw new LockException.NotAcquired(names.get(0), Map.of(), options.token());
                }
                share.hold = Hold.acquire(client, options, names, began);
                return Lock.first(share.hold);
            } finally {
                share.turn.release();
            }
        } finally {
            synchronized (SHARES) {
                share.users--;
            }
        }
    }

    private static Share use(Key key) {
        synchronized (SHARES) {
            SHARES.values().removeIf(share -> !share.isUsed());
            for (Key other : SHARES.keySet()) {
                String name = key.shares(other);
                if (name != null)
                    throw new IllegalArgumentException(
                            "an owner cannot have the lock " + name + " alone and with others at a time");
            }
            Share share = SHARES.computeIfAbsent(key, missing -> new Share());
            share.users++;
            return share;
        }
    }
}
