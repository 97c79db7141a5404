package keylatch.lock.tests;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** An address of a server that changes; connections to the former one end with it. */
final class Moving implements AutoCloseable {
    private final Server server;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private volatile ServerSocket listener;

    Moving(Server server) throws IOException {
        this.server = server;
        listen();
    }

    /** The server, at its address of the moment. */
    Server client() {
        return new Server("127.0.0.1", () -> listener.getLocalPort());
    }

    void move() throws IOException {
        close();
        listen();
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

    private static void pass(Socket from, Socket to) throws IOException {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
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
