import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;
import org.apache.kafka.tools.streams.StreamsGroupCommand;

/** Runs Kafka's tools for groups in one JVM: each line is a tool and its arguments, separated by tabs, and gets a line with all that was printed, in Base64. */
public final class GroupTools {
    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("the tool ended with " + code + ": " + message);
        });
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream all = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(all);
            System.setErr(all);
            try {
                run(words[0], Arrays.copyOfRange(words, 1, words.length));
            } catch (Throwable error) {
                error.printStackTrace(all);
            }
            answers.println(Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }

    private static void run(String tool, String[] arguments) {
        if (tool.equals("consumer")) {
            ConsumerGroupCommand.main(arguments);
        } else {
            StreamsGroupCommand.execute(arguments);
        }
    }
}
