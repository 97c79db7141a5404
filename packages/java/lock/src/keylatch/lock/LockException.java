package keylatch.lock;

/** What goes wrong with locks, but for connections. */
public class LockException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    LockException(String message) {
        super(message);
    }

    /** The lock was not obtained within the time that its options give. */
    public static final class NotAcquired extends LockException {
        private static final long serialVersionUID = 1L;

        NotAcquired(String names) {
            super("the lock " + names + " was not obtained in time");
        }
    }

    /** The wait would never end: the owner holds a lock that those before it wait for. */
    public static final class Deadlock extends LockException {
        private static final long serialVersionUID = 1L;
        private final String cycle;

        Deadlock(String cycle) {
            super("the wait would never end: " + cycle);
            this.cycle = cycle;
        }

        /** The locks and clients that wait for each other. */
        public String cycle() {
            return cycle;
        }
    }

    /** The lock went before it was released. */
    public static final class Lost extends LockException {
        private static final long serialVersionUID = 1L;
        private final String reason;

        Lost(String names, String reason) {
            super("the lock " + names + " is lost: " + reason);
            this.reason = reason;
        }

        /** How: "expired", "disconnected" or a reason of NOTIFY. */
        public String reason() {
            return reason;
        }
    }

    /** The server has answered with this error. */
    public static final class Refused extends LockException {
        private static final long serialVersionUID = 1L;

        /** @param message the error with its code, as the server has sent it */
        public Refused(String message) {
            super(message);
        }
    }

    /** The server has no locks of this kind: it is no keylatch server, or an older one. */
    public static final class Unsupported extends LockException {
        private static final long serialVersionUID = 1L;

        Unsupported(String message, Refused cause) {
            super(message + ": " + cause.getMessage());
            initCause(cause);
        }
    }
}
