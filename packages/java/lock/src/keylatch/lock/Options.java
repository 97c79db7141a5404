package keylatch.lock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;

/** How a lock is to be held. Those of a new object are for an exclusive lock that is waited for as long as it takes. */
public final class Options {
    /** The parts of a TTL: it is renewed after one, and no reply is waited for longer than another. */
    private static final int PARTS = 3;

    private static final Duration LONGEST = Duration.ofDays(36_500); // of which nanoseconds can be counted

    // For servers without LOCK commands.
    private static final String HELD = "if redis.call('GET', KEYS[1]) == ARGV[1] then return ";
    private static final String RENEW = HELD + "redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    private static final String LOOK = HELD + "1 end return 0";
    private static final String RELEASE = HELD + "redis.call('DEL', KEYS[1]) end return 0";

    static final String CANNOT_CONVERT = "the server cannot change the mode of a lock";

    private Duration ttl = Duration.ofSeconds(30);
    private Duration wait;
    private boolean shared;
    private boolean session;
    private Integer permits;
    private Integer of;
    private Duration renewEvery;
    private Duration renewFor;
    private String meta;
    private String owner;
    private boolean hasOwner;
    private boolean converts; // a lock that is held is to have another mode

    /** For how long the lock outlives its last renewal; 30 s by default. */
    public Options ttl(Duration ttl) {
        if (ttl.compareTo(LONGEST) > 0) throw new IllegalArgumentException("the TTL is at most 100 years");
        if (ttl.toMillis() < 1) throw new IllegalArgumentException("the TTL has to be at least a millisecond");
        this.ttl = ttl;
        return this;
    }

    /** For how long to wait in line; null, the default, for as long as it takes, zero for not at all. */
    public Options waitAtMost(Duration wait) {
        this.wait = shorter(wait);
        return this;
    }

    /** The time from one renewal to the next; a third of the TTL by default. */
    public Options renewEvery(Duration interval) {
        renewEvery = interval;
        return this;
    }

    /**
     * For how long the lock is renewed, from its acquisition, so that work which never ends does not hold it for ever; null,
     * the default, for as long as it is held, zero for not at all.
     */
    public Options renewFor(Duration limit) {
        renewFor = shorter(limit);
        return this;
    }

    private static Duration shorter(Duration time) {
        return time == null || time.compareTo(LONGEST) < 0 ? time : LONGEST;
    }

    /** Others may share the lock; who does not, has it alone. */
    public Options shared() {
        shared = true;
        return this;
    }

    /** So many of the permits of a semaphore, which is there and has a size. */
    public Options permits(int permits) {
        this.permits = permits;
        return this;
    }

    /** How many permits the semaphore has. */
    public Options of(int size) {
        of = size;
        return this;
    }

    /** A text for LOCK.INFO, which tells others what the lock is for. */
    public Options meta(String meta) {
        this.meta = meta;
        return this;
    }

    /** The server releases the lock when the connection closes, after its {@code session-grace-ms}. */
    public Options session() {
        session = true;
        return this;
    }

    /**
     * The token of all locks of one thread of work, of its own: a wait that would never end because of a lock of the same
     * owner is a {@link LockException.Deadlock} at once. A lock that its owner holds by the same client is acquired again
     * at once, by any thread, on the terms of the first time, and released with the last.
     */
    public Options owner(String owner) {
        this.owner = owner;
        return this;
    }

    /** Returns a copy for locks of these names, with a token. */
    Options forNames(List<String> names) {
        if (names.isEmpty()) throw new IllegalArgumentException("a lock needs a name");
        if (names.size() > 1 && (shared || permits != null))
            throw new IllegalArgumentException("several locks at once are exclusive");
        if (shared && permits != null)
            throw new IllegalArgumentException("a lock is shared or has permits, not both");
        if (of != null && permits == null) throw new IllegalArgumentException("a size needs permits");
        if (renewEvery != null && (renewEvery.compareTo(Duration.ZERO) <= 0 || renewEvery.compareTo(ttl) >= 0))
            throw new IllegalArgumentException("a lock has to be renewed before its TTL is over");
        Options copy = copy();
        copy.hasOwner = owner != null;
        copy.owner = owner == null ? UUID.randomUUID().toString() : owner;
        return copy;
    }

    /** Returns a copy for a lock that is held on these options and is to be shared, or to be had alone. */
    Options converted(boolean isShared, Duration wait) {
        Options copy = copy();
        copy.shared = isShared;
        copy.wait = shorter(wait);
        copy.converts = true;
        return copy;
    }

    private Options copy() {
        Options copy = new Options();
        copy.ttl = ttl;
        copy.renewEvery = renewEvery;
        copy.renewFor = renewFor;
        copy.wait = wait;
        copy.shared = shared;
        copy.session = session;
        copy.permits = permits;
        copy.of = of;
        copy.meta = meta;
        copy.hasOwner = hasOwner;
        copy.owner = owner;
        copy.converts = converts;
        return copy;
    }

    long ttlNanos() {
        return ttl.toNanos();
    }

    /** For how long a reply is waited for, before the connection counts as stuck. */
    long patienceNanos() {
        return ttl.toNanos() / PARTS;
    }

    /** For how long the lock is waited for, and the reply to that; null for ever. */
    Long answerNanos(long waited) {
        return wait == null ? null : Math.max(0, wait.toNanos() - waited) + patienceNanos();
    }

    /** What is left of the time to wait. */
    long leftNanos(long waited) {
        return wait == null ? Long.MAX_VALUE : wait.toNanos() - waited;
    }

    long renewalNanos() {
        return renewEvery == null ? patienceNanos() : renewEvery.toNanos();
    }

    /** Whether a renewal at this age extends the lock, because the time of all of them is not over. */
    boolean isExtended(long age) {
        return renewFor == null || age < renewFor.toNanos();
    }

    /** Whether a server without LOCK commands can grant this. */
    boolean isPlain(List<String> names) {
        return names.size() == 1 && !shared && permits == null && !session && !converts;
    }

    String mode() {
        return shared ? "shared" : "permits " + permits;
    }

    boolean isShared() {
        return shared;
    }

    boolean hasPermits() {
        return permits != null;
    }

    boolean isSession() {
        return session;
    }

    /** Whether other locks may have the token, too. */
    boolean hasOwner() {
        return hasOwner;
    }

    String token() {
        return owner;
    }

    boolean waitsLongerThan(long nanos) {
        return wait == null || wait.toNanos() > nanos;
    }

    /** Words the command. The same token again is safe: a lock that is held with it is granted again. */
    List<String> acquire(List<String> names, Duration waited) {
        List<String> words = opening(names, of);
        if (wait == null) words.addAll(List.of("BLOCK", "0"));
        else if (wait.minus(waited).toMillis() > 0)
            words.addAll(List.of("BLOCK", String.valueOf(wait.minus(waited).toMillis())));
        if (meta != null) words.addAll(List.of("META", meta));
        return words;
    }

    /** Words the command for a lock that is held. The size of a semaphore may be another now. */
    List<String> again(List<String> names) {
        return opening(names, null);
    }

    private List<String> opening(List<String> names, Integer size) {
        List<String> words = new ArrayList<>();
        if (names.size() > 1) words.addAll(List.of("LOCK.ACQUIREMULTI", String.valueOf(names.size())));
        else words.add("LOCK.ACQUIRE");
        words.addAll(names);
        words.add(owner);
        if (shared) words.add("SHARED");
        if (converts) words.add("CONVERT");
        if (permits != null) words.addAll(List.of("PERMITS", permits.toString()));
        if (size != null) words.addAll(List.of("OF", size.toString()));
        words.addAll(List.of("PX", String.valueOf(ttl.toMillis()), "NOTIFY"));
        if (session) words.add("SESSION");
        return words;
    }

    List<String> resume() {
        return List.of("LOCK.RESUME", owner);
    }

    /** Words the command that takes a lock where there are no LOCK commands. */
    List<String> set(String name) {
        return List.of("SET", name, owner, "NX", "PX", String.valueOf(ttl.toMillis()));
    }

    List<String> renew(String name, boolean isPlain) {
        String millis = String.valueOf(ttl.toMillis());
        if (isPlain) return List.of("EVAL", RENEW, "1", name, owner, millis);
        return List.of("LOCK.RENEW", name, owner, "PX", millis);
    }

    /** Words the command that tells whether a lock is held, as a renewal does. */
    List<String> look(String name, boolean isPlain) {
        return isPlain ? List.of("EVAL", LOOK, "1", name, owner) : List.of("LOCK.FENCE", name, owner);
    }

    List<String> release(String name, boolean isPlain) {
        return isPlain ? List.of("EVAL", RELEASE, "1", name, owner) : List.of("LOCK.RELEASE", name, owner);
    }

    /** Whether a server refuses because it has no such command, or not for this user. */
    static boolean lacksCommand(LockException.Refused error) {
        return lacks(error, "unknown command") || error.getMessage().startsWith("NOPERM ");
    }

    /** Whether an error has these words, by which a server says that it lacks something. */
    static boolean lacks(LockException.Refused error, String words) {
        return error.getMessage().toLowerCase(Locale.ROOT).contains(words);
    }

    /** Tells what an error of the server says of the lock. */
    LockException refusal(List<String> names, LockException.Refused error) {
        String told = error.getMessage();
        if (told.startsWith("DEADLOCK ")) return new LockException.Deadlock(told.substring("DEADLOCK ".length()));
        if (!lacks(error, "unknown command") && !lacks(error, "syntax error")) return error;
        if (converts) return new LockException.Unsupported(CANNOT_CONVERT, error);
        if (names.size() > 1)
            return new LockException.Unsupported("the server cannot lock several names at once", error);
        if (permits != null) return new LockException.Unsupported("the server has no permits", error);
        if (shared) return new LockException.Unsupported("the server has no shared locks", error);
        boolean isSession = session && lacks(error, "unknown command");
        return isSession ? new LockException.Unsupported("the server has no sessions", error) : error;
    }
}
