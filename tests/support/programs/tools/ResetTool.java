import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.tools.StreamsResetter;

/** Kafka's application reset tool, several times in one process: each line of the input is one call, its arguments with tabs between them. */
public final class ResetTool {
    public static void main(String[] ignored) throws Exception {
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            int code = new StreamsResetter().execute(call.split("\t"));
            System.err.flush();
            System.out.println("exit code " + code);
            System.out.flush();
        }
    }
}
