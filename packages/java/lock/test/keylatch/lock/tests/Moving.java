package keylatch.lock.tests;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * An address of a server that changes; connections to the former one end with it. Connections can be stuck: they pass
 * nothing on any more, except their end.
 */
final class Moving implements AutoCloseable {
    private final Server server;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>(); // of a client, and then of the server
    private final Set<Socket> stuck = ConcurrentHashMap.newKeySet();
    private volatile ServerSocket listener;

    Moving(Server server) throws IOException {
        this.server = server;
        listen();
    }

    /** The server, at its address of the moment. */
    Server client() {
        return new Server("127.0.0.1", () -> listener.getLocalPort());
    }

    void move(boolean isStuck) throws IOException {
        if (isStuck) {
            stall(false);
            listener.close();
        } else close();
        listen();
    }

    /** Makes the open connections stuck, in one direction or both. */
    void stall(boolean repliesOnly) {
        for (int at = 0; at < sockets.size(); at++) {
            if (at % 2 == 1 || !repliesOnly) stuck.add(sockets.get(at));
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : sockets) socket.close();
    }

    private void listen() throws IOException {
        ServerSocket opened = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        listener = opened;
        start(() -> {
            while (true) {
                Socket client = opened.accept();
                Socket behind = server.open();
                sockets.addAll(List.of(client, behind));
                start(() -> pass(client, behind));
                start(() -> pass(behind, client));
            }
        });
    }

    private void pass(Socket from, Socket to) throws IOException {
        byte[] received = new byte[1 << 16];
        try (from; to) {
            for (int length; (length = from.getInputStream().read(received)) >= 0; ) {
                if (!stuck.contains(from)) to.getOutputStream().write(received, 0, length);
            }
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // The address has changed, or an end was closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
