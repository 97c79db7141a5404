package keylatch.lock;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Runs calls that may never return, for a limited time. Nothing of them is seen after that. */
final class Calls {
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "keylatch-lock calls");
        thread.setDaemon(true);
        return thread;
    });

    private Calls() {}

    /** A call of a client library. */
    interface Call<T> {
        T run() throws IOException;
    }

    /** Thrown for a call that takes too long. */
    static final class Stuck extends IOException {
        private static final long serialVersionUID = 1;

        Stuck() {
            super("no reply about a lock");
        }
    }

    /** Runs a call for so long at most; what it returns after that is given to somebody else. */
    static <T> T within(long nanos, Call<T> call, Consumer<T> late) throws IOException {
        CompletableFuture<T> done = new CompletableFuture<>();
        THREADS.execute(() -> {
            try {
                T returned = call.run();
                if (!done.complete(returned)) late.accept(returned);
            } catch (Throwable error) { // whatever it is, a caller waits to be told
                done.completeExceptionally(error);
            }
        });
        return ended(done, System.nanoTime() + nanos);
    }

    /** Waits for the end of a call; an interrupt is noted, and ends no call. */
    private static <T> T ended(CompletableFuture<T> done, long until) throws IOException {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return done.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
                } catch (TimeoutException over) {
                    done.completeExceptionally(new Stuck()); // unless it has just returned
                } catch (InterruptedException error) {
                    interrupted = true;
                }
            }
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof IOException broken) throw broken;
            if (cause instanceof RuntimeException refused) throw refused;
            throw new IllegalStateException(cause);
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }
}
