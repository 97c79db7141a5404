package keylatch.lock.tests;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import keylatch.lock.Lock;
import keylatch.lock.LockException;
import keylatch.lock.Options;

/** A run of one scenario of packages/lock-conformance.json. */
final class Scenario {
    static final Duration PATIENCE = Duration.ofSeconds(60);
    /** The server has no LOCK and TEST commands. */
    static final boolean IS_PLAIN = System.getenv("KEYLATCH_PLAIN") != null;
    /** The server has no TEST commands, and another one takes its place when this address is asked for it. */
    static final String FAILOVER = System.getenv("KEYLATCH_FAILOVER");
    /** The data of the server are in etcd. */
    private static final boolean IS_ON_ETCD = FAILOVER != null && System.getenv("SENTINELS") == null;
    private static final Pattern WAITING = Pattern.compile("waiting:(\\d+)");

    /** How an acquisition ended. */
    private record Outcome(Lock lock, String kind, String told) {}

    private final Server server;
    private Server.Resp admin;
    private final Moving moving;
    private final Map<String, Options> objects = new HashMap<>(); // which several acquisitions have in common
    private final Map<String, Lock> locks = new HashMap<>();
    private final Map<String, CompletableFuture<Outcome>> waiting = new HashMap<>();
    private final Map<Object, LockException.NotAcquired> refused = new ConcurrentHashMap<>();
    private final Set<Object> killed = new HashSet<>();

    /** A scenario in which the server moves, or connections to it are stuck, or neither. */
    Scenario(Server server, Server.Resp admin, Moving moving) {
        this.server = moving == null ? server : moving.client();
        this.admin = admin;
        this.moving = moving;
    }

    /** Whether a scenario is for this server. */
    static boolean isFor(Map<?, ?> scenario) {
        if (IS_ON_ETCD) {
            String steps = scenario.get("steps").toString();
            return !steps.contains("TEST.") && !steps.contains("without=") && !scenario.containsKey("not_on_etcd");
        }
        if (FAILOVER != null) return scenario.containsKey("fails");
        return (!IS_PLAIN || scenario.containsKey("plain")) && !scenario.containsKey("fails");
    }

    void run(List<?> steps) throws Exception {
        for (Object step : steps) {
            try {
                run((Map<?, ?>) step);
            } catch (AssertionError | Exception failed) {
                throw new AssertionError("at " + step, failed);
            }
        }
        check(waiting.isEmpty(), "somebody still waits");
    }

    private void run(Map<?, ?> step) throws Exception {
        String verb = (String) step.keySet().iterator().next();
        Object argument = step.get(verb);
        switch (verb) {
            case "acquire" -> acquire(step);
            case "upgrade", "downgrade" -> convert((String) argument, step);
            case "ends" -> ends((String) argument, step.get("expect"));
            case "release" -> check(step.get("expect").equals(locks.get(argument).release()), "release");
            case "holds" -> holds(locks.get(argument));
            case "lost" -> lost(locks.get(argument), (List<?>) step.get("because"));
            case "fence" -> fence(argument, step);
            case "command" -> command((List<?>) argument, step);
            case "without" -> without((List<?>) argument);
            case "info" -> until(() -> shows(admin.info((String) argument), (Map<?, ?>) step.get("has")));
            case "refused" -> isRefused(refused.get(argument), step);
            case "key" -> until(() -> step.get("pttl").equals(admin.call("PTTL", argument)));
            case "cut" -> cut(admin.info((String) argument), (Long) step.get("waiter"));
            case "failover" -> failover(admin.info((String) argument), step.containsKey("stuck"));
            case "stall" -> stall(admin.info((String) argument), step.containsKey("replies"));
            case "resumes" -> until(() -> isBack(admin.info((String) argument)));
            default -> throw new AssertionError("an unknown step");
        }
    }

    private void acquire(Map<?, ?> step) throws Exception {
        long before = inLine();
        CompletableFuture<Outcome> done = begin(step.get("as"));
        CompletableFuture<Outcome> next = step.get("on_lost") instanceof Map<?, ?> then ? begin(then.get("as")) : null;
        start(() -> {
            Outcome outcome = acquired(step);
            if (next != null) {
                Map<?, ?> then = (Map<?, ?>) step.get("on_lost");
                outcome.lock.lost().thenRun(() -> next.complete(acquired(then)));
            }
            done.complete(outcome);
        });
        begun((String) step.get("as"), step, before);
    }

    private void convert(String name, Map<?, ?> step) throws Exception {
        long before = inLine();
        Lock lock = locks.get(name);
        CompletableFuture<Outcome> done = begin(name);
        start(() -> done.complete(outcome(name, () -> {
            if (step.containsKey("downgrade")) lock.downgrade();
            else lock.upgrade(step.get("wait_ms") instanceof Long wait ? Duration.ofMillis(wait) : null);
            return lock;
        })));
        begun(name, step, before);
    }

    /** Looks at what has begun, before which so many clients were in line. */
    private void begun(String name, Map<?, ?> step, long before) throws Exception {
        if ("begins".equals(step.get("expect"))) return;
        if ("waits".equals(step.get("expect"))) until(() -> inLine() > before);
        else ends(name, step.containsKey("expect") ? step.get("expect") : "held");
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private static String[] list(Object names) {
        return (names instanceof List<?> several ? several : List.of(names)).toArray(String[]::new);
    }

    /** Notes that a lock is waited for, or its other mode. */
    private CompletableFuture<Outcome> begin(Object name) {
        CompletableFuture<Outcome> done = new CompletableFuture<>();
        waiting.put((String) name, done);
        return done;
    }

    /** The options of a step, or those that have made the object which it names. A lock knows no thread. */
    private synchronized Options options(Map<?, ?> step) {
        if (step.get("object") instanceof String object) return objects.computeIfAbsent(object, made -> read(step));
        return read(step);
    }

    private static Options read(Map<?, ?> step) {
        Options options = new Options().ttl(Duration.ofMinutes(1));
        if (step.get("ttl_ms") instanceof Long ttl) options.ttl(Duration.ofMillis(ttl));
        if (step.get("wait_ms") instanceof Long wait) options.waitAtMost(Duration.ofMillis(wait));
        if (step.get("renew_ms") instanceof Long interval) options.renewEvery(Duration.ofMillis(interval));
        if (step.get("renew_for_ms") instanceof Long limit) options.renewFor(Duration.ofMillis(limit));
        if (step.get("permits") instanceof Long permits) options.permits(permits.intValue());
        if (step.get("of") instanceof Long size) options.of(size.intValue());
        if (step.get("meta") instanceof String meta) options.meta(meta);
        if (step.get("owner") instanceof String owner) options.owner(owner);
        if (step.containsKey("shared")) options.shared();
        if (step.containsKey("session")) options.session();
        return options;
    }

    private Outcome acquired(Map<?, ?> step) {
        return outcome(step.get("as"), () -> Lock.acquire(server, options(step), list(step.get("acquire"))));
    }

    private Outcome outcome(Object as, Callable<Lock> call) {
        try {
            return new Outcome(call.call(), "held", "");
        } catch (LockException.NotAcquired error) {
            refused.put(as, error);
            return new Outcome(null, "not acquired", error.getMessage());
        } catch (LockException.Deadlock deadlock) {
            return new Outcome(null, "deadlock", deadlock.cycle());
        } catch (Exception error) {
            return new Outcome(null, "error", String.valueOf(error.getMessage()));
        }
    }

    private long inLine() throws IOException {
        if (IS_PLAIN) return 0;
        Matcher found = WAITING.matcher((String) admin.call("INFO", "locks"));
        check(found.find(), "INFO locks says who waits");
        return Long.parseLong(found.group(1));
    }

    private void ends(String name, Object expected) throws Exception {
        Outcome got = waiting.remove(name).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        if (expected instanceof Map<?, ?> error) {
            check(error.get(got.kind) instanceof String part && got.told.contains(part), got);
        } else {
            check(got.kind.equals(expected), got);
        }
        if (got.lock != null) locks.put(name, got.lock);
    }

    private void holds(Lock lock) {
        lock.check();
        check(lock.isHeld() && !lock.lost().isDone(), "it is held");
    }

    private void lost(Lock lock, List<?> because) throws Exception {
        String reason = lock.lost().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        check(because.contains(reason), reason);
        check(!lock.isHeld(), "it is not held");
        try {
            lock.check();
        } catch (LockException.Lost lost) {
            check(lost.reason().equals(reason), lost);
            return;
        }
        throw new AssertionError("a check of a lost lock passes");
    }

    private static void isRefused(LockException.NotAcquired told, Map<?, ?> step) {
        check(told.name().equals(step.get("name")) && told.meta().equals(step.get("meta")), told);
        check(step.get("age_ms").equals(told.age().toMillis()) && step.get("ttl_ms").equals(told.ttl().toMillis()), told);
    }

    private void fence(Object which, Map<?, ?> step) {
        if (step.containsKey("is")) check(fenceOf(which) == 0, "none");
        else if (step.containsKey("above")) check(fenceOf(which) > fenceOf(step.get("above")), "above");
        else check(fenceOf(which) == fenceOf(step.get("same_as")), "the same");
    }

    private long fenceOf(Object which) {
        if (which instanceof List<?> pair) return locks.get(pair.get(0)).fences().get(pair.get(1));
        return locks.get(which).fence();
    }

    private void without(List<?> commands) throws IOException {
        for (Object command : IS_PLAIN ? List.of() : commands) {
            String error = "ERR unknown command '" + command + "', with args beginning with: 'report' ";
            admin.call("TEST.FAULT", "ADD", command, "ERROR", error);
        }
    }

    private void command(List<?> words, Map<?, ?> step) throws IOException {
        Object reply = admin.call(words.toArray());
        if (step.containsKey("expect")) check(Objects.equals(reply, step.get("expect")), reply);
    }

    private static boolean shows(Map<String, Object> shown, Map<?, ?> expected) {
        if (shown == null || expected == null) return shown == null && expected == null;
        for (Map.Entry<?, ?> each : expected.entrySet()) {
            Object found = shown.get(each.getKey());
            if (found instanceof List<?> list) found = (long) list.size();
            if (!Objects.equals(found, each.getValue())) return false;
        }
        return true;
    }

    private void cut(Map<String, Object> info, Long waiter) throws IOException {
        Object client = info.get("client-id");
        if (waiter != null) client = clients(info, "waiters").get(waiter.intValue());
        else if (client == null) client = clients(info, "holders").get(0);
        killed.add(client);
        check(Long.valueOf(1).equals(admin.call("CLIENT", "KILL", "ID", client)), "a client");
    }

    private void failover(Map<String, Object> info, boolean isStuck) throws IOException {
        killed.addAll(clients(info, "holders"));
        killed.addAll(clients(info, "waiters"));
        if (FAILOVER != null) admin = Server.failOver(isStuck ? "stop" : "kill");
        else moving.move(isStuck);
    }

    private void stall(Map<String, Object> info, boolean repliesOnly) {
        killed.addAll(clients(info, "holders"));
        killed.addAll(clients(info, "waiters"));
        moving.stall(repliesOnly);
    }

    private boolean isBack(Map<String, Object> info) {
        if (info == null) return false;
        List<Object> all = clients(info, "holders");
        all.addAll(clients(info, "waiters"));
        return !all.isEmpty() && all.stream().noneMatch(client -> client == null || killed.contains(client));
    }

    /** The ids of the holders, or of the waiters, of which LOCK.INFO tells. */
    private static List<Object> clients(Map<String, Object> info, String who) {
        List<Object> ids = new ArrayList<>();
        for (Object each : (List<?>) info.get(who)) {
            List<?> flat = (List<?>) each;
            ids.add(flat.get(flat.indexOf("client-id") + 1));
        }
        return ids;
    }

    /** A condition that may ask the server. */
    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits until a condition holds. */
    static void until(Condition condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            check(System.nanoTime() < deadline, "waited in vain");
            Thread.sleep(2);
        }
    }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }
}
