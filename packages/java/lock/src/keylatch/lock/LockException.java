package keylatch.lock;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What goes wrong with locks, but for connections. */
public class LockException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    LockException(String message) {
        super(message);
    }

    private static String seconds(Duration time) {
        return String.format(Locale.ROOT, "%.1f s", time.toMillis() / 1000.0);
    }

    /** Returns the fields of a map, which is a list in RESP2. */
    static Map<String, Object> fields(Object reply) {
        Map<String, Object> fields = new HashMap<>();
        if (reply instanceof Map<?, ?> map) map.forEach((name, value) -> fields.put(text(name), value));
        if (reply instanceof List<?> flat)
            for (int at = 0; at + 1 < flat.size(); at += 2) fields.put(text(flat.get(at)), flat.get(at + 1));
        return fields;
    }

    static String text(Object reply) {
        if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        return reply == null ? "" : reply.toString();
    }

    /** The lock was not obtained within the time that its options give. It tells who held it then, where the server has LOCK.INFO. */
    public static final class NotAcquired extends LockException {
        private static final long serialVersionUID = 1L;
        private final String name;
        private final String meta;
        private final String clientName;
        private final String addr;
        private final Duration age;
        private final Duration ttl;

        /** @param info what LOCK.INFO says to the holder of a token, who is not meant */
        NotAcquired(String name, Map<String, Object> info, String token) {
            this(name, info, holder(info, token));
        }

        private static Map<String, Object> holder(Map<String, Object> info, String token) {
            List<?> all = info.get("holders") instanceof List<?> listed ? listed : List.of();
            return all.stream().map(LockException::fields).filter(each -> !text(each.get("token")).equals(token))
                    .findFirst().orElse(info);
        }

        private NotAcquired(String name, Map<String, Object> info, Map<String, Object> holder) {
            super(message(name, info, holder));
            this.name = name;
            meta = text(holder.get("meta"));
            clientName = text(holder.get("client-name"));
            addr = text(holder.get("addr"));
            age = millis(info.get("age-ms"));
            ttl = millis(info.get("pttl"));
        }

        private static String message(String name, Map<String, Object> info, Map<String, Object> holder) {
            String known = Stream.of("meta", "client-name", "addr").map(part -> text(holder.get(part)))
                    .filter(part -> !part.isEmpty()).collect(Collectors.joining(", "));
            Duration age = millis(info.get("age-ms"));
            Duration ttl = millis(info.get("pttl"));
            return "the lock " + name + " was not obtained in time" + (known.isEmpty() ? "" : "; it is held by " + known)
                    + (age == null ? "" : " for " + seconds(age))
                    + (ttl == null ? "" : "; its TTL is over in " + seconds(ttl));
        }

        private static Duration millis(Object number) {
            return number instanceof Long millis && millis >= 0 ? Duration.ofMillis(millis) : null;
        }

        /** The name; of several the first that was held. */
        public String name() {
            return name;
        }

        /** The text that the holder has given for others; of those who share the lock one. Empty if it is not known. */
        public String meta() {
            return meta;
        }

        /** The name of the holder's connection; empty if it has none or is not known. */
        public String clientName() {
            return clientName;
        }

        /** The address of the holder; empty if it is not known. */
        public String addr() {
            return addr;
        }

        /** For how long the lock had been held; null if it is not known. */
        public Duration age() {
            return age;
        }

        /** The rest of its TTL; null if it has none or is not known. */
        public Duration ttl() {
            return ttl;
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
        private final Instant at;
        private final Duration age;

        Lost(String names, String reason, Instant at, Duration age) {
            super("the lock " + names + " was lost after " + seconds(age) + ": " + reason);
            this.reason = reason;
            this.at = at;
            this.age = age;
        }

        /** When this process has noticed it. */
        public Instant at() {
            return at;
        }

        /** For how long the lock was held until then. */
        public Duration age() {
            return age;
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

        Unsupported(String message) {
            super(message);
        }

        Unsupported(String message, Refused cause) {
            super(message + ": " + cause.getMessage());
            initCause(cause);
        }
    }
}
