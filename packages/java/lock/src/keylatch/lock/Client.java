package keylatch.lock;

import java.io.IOException;
import java.util.List;
import java.util.function.BiConsumer;

/** Opens connections to a keylatch server, by the client library that the program has. */
public interface Client {
    /**
     * Opens a connection, or takes one from a pool, that one lock has for itself. It waits in line for as long as it has
     * to, so its reads must not time out by themselves.
     */
    Connection connect() throws IOException;

    /**
     * Subscribes to channels. It returns when that is done, and calls {@code heard} with the channel of each message and
     * its text, until the returned subscription is closed.
     */
    Subscription subscribe(List<String> channels, BiConsumer<String, String> heard) throws IOException;

    /**
     * A connection. It has to be the same for all its calls, because a session is bound to it. They come from several
     * threads, one after the other.
     */
    interface Connection extends AutoCloseable {
        /**
         * Sends a command and returns its reply: null, a Long, a String or byte[], a List, and in RESP3 a Map. An error with
         * which the server has answered has to be a {@link LockException.Refused}; an IOException means that the connection
         * is broken.
         */
        Object call(List<String> words) throws IOException;

        /** Closes the connection, also while another thread waits for a reply, which then fails. */
        @Override
        void close();
    }

    /** A subscription. */
    interface Subscription extends AutoCloseable {
        @Override
        void close();
    }
}
