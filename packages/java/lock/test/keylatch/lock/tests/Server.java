package keylatch.lock.tests;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.IntSupplier;
import keylatch.lock.Client;
import keylatch.lock.LockException;

/** A small client of the server that KEYLATCH_SERVERS=host:port names, so that the tests need no other library. */
final class Server implements Client {
    private final String host;
    private final IntSupplier port;

    Server(String host, int port) {
        this(host, () -> port);
    }

    /** A server whose port changes. */
    Server(String host, IntSupplier port) {
        this.host = host;
        this.port = port;
    }

    static Server named() {
        String named = System.getenv().getOrDefault("KEYLATCH_SERVERS", "localhost:6379");
        String[] parts = named.split(" ")[0].split(":");
        return new Server(parts[0], Integer.parseInt(parts[1]));
    }

    /** Has the server killed or stopped; returns a connection to the one that serves then. */
    static Resp failOver(String how) throws IOException {
        String[] parts = Scenario.FAILOVER.split(":");
        try (Socket control = new Socket(parts[0], Integer.parseInt(parts[1]))) {
            control.getOutputStream().write((how + "\n").getBytes(StandardCharsets.UTF_8));
            Scenario.check(control.getInputStream().read() == 'd', "a failover");
        }
        return named().connect();
    }

    Socket open() throws IOException {
        return new Socket(host, port.getAsInt());
    }

    @Override
    public Resp connect() throws IOException {
        return new Resp(open());
    }

    @Override
    public Subscription subscribe(List<String> channels, BiConsumer<String, String> heard) throws IOException {
        Resp connection = connect();
        List<String> words = new ArrayList<>(List.of("SUBSCRIBE"));
        words.addAll(channels);
        connection.send(words);
        for (int confirmed = 0; confirmed < channels.size(); confirmed++) connection.read();
        Thread thread = new Thread(() -> listen(connection, heard), "subscription");
        thread.setDaemon(true);
        thread.start();
        return connection::close;
    }

    private static void listen(Resp connection, BiConsumer<String, String> heard) {
        try {
            while (true) {
                List<?> message = (List<?>) connection.read();
                heard.accept((String) message.get(1), (String) message.get(2));
            }
        } catch (IOException closed) {
            // Then there is nothing to be heard.
        }
    }

    /** A connection that speaks RESP2. */
    static final class Resp implements Client.Connection {
        private final Socket socket;
        private final InputStream input;

        Resp(Socket socket) throws IOException {
            this.socket = socket;
            input = new BufferedInputStream(socket.getInputStream());
        }

        @Override
        public Object call(List<String> words) throws IOException {
            send(words);
            return read();
        }

        Object call(Object... words) throws IOException {
            return call(List.of(words).stream().map(String::valueOf).toList());
        }

        /** What LOCK.INFO says, by its fields; null for a lock that nobody holds. */
        Map<String, Object> info(String name) throws IOException {
            List<?> flat = (List<?>) call("LOCK.INFO", name);
            if (flat == null) return null;
            Map<String, Object> fields = new LinkedHashMap<>();
            for (int at = 0; at < flat.size(); at += 2) fields.put((String) flat.get(at), flat.get(at + 1));
            return fields;
        }

        void send(List<String> words) throws IOException {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.writeBytes(("*" + words.size() + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (String word : words) {
                byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
                request.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
                request.writeBytes(bytes);
                request.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
            }
            socket.getOutputStream().write(request.toByteArray());
        }

        Object read() throws IOException {
            String line = line();
            char kind = line.charAt(0);
            String rest = line.substring(1);
            if (kind == '+') return rest;
            if (kind == '-') throw new LockException.Refused(rest);
            long number = Long.parseLong(rest);
            if (kind == ':') return number;
            if (number < 0) return null;
            if (kind == '$') {
                byte[] bytes = input.readNBytes((int) number + 2);
                if (bytes.length < number + 2) throw new EOFException();
                return new String(bytes, 0, (int) number, StandardCharsets.UTF_8);
            }
            if (kind != '*') throw new IOException("not RESP2: " + line);
            List<Object> list = new ArrayList<>();
            while (list.size() < number) list.add(read());
            return list;
        }

        private String line() throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int next = input.read(); next != '\n'; next = input.read()) {
                if (next < 0) throw new EOFException();
                if (next != '\r') line.write(next);
            }
            return line.toString(StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            try {
                socket.close();
            } catch (IOException error) {
                // It is of no use any more in any case.
            }
        }
    }
}
