import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs classes of tests of JUnit 4. Each line of standard input asks for one: the address of a metastore, the location
 * of its warehouse, the name of the class, divided by tabs. The answer is a line for each test: its outcome, its name,
 * and for one that failed why, divided by tabs; and "end". What the tests themselves print goes to standard error.
 */
public final class ClientSuite {
    private ClientSuite() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] question = line.split("\t");
            System.setProperty("interbed.metastore", question[0]);
            System.setProperty("interbed.warehouse", question[1]);
            JUnitCore core = new JUnitCore();
            core.addListener(new Lines(out));
            core.run(Class.forName(question[2]));
            out.println("end");
            out.flush();
        }
        // Threads of Hadoop's may still run.
        System.exit(0);
    }

    private static final class Lines extends RunListener {
        private final PrintStream out;
        private String outcome;

        Lines(PrintStream out) {
            this.out = out;
        }

        @Override
        public void testStarted(Description test) {
            outcome = "passed";
        }

        @Override
        public void testFailure(Failure failure) {
            outcome = "failed";
            StringWriter trace = new StringWriter();
            failure.getException().printStackTrace(new PrintWriter(trace));
            System.err.println("--- " + failure.getTestHeader() + "\n" + trace);
            String why = String.valueOf(failure.getException()).replaceAll("\\s+", " ");
            line(outcome, failure.getDescription(), why);
        }

        @Override
        public void testAssumptionFailure(Failure failure) {
            outcome = "left out";
            line(outcome, failure.getDescription(), "");
        }

        @Override
        public void testIgnored(Description test) {
            line("left out", test, "");
        }

        @Override
        public void testFinished(Description test) {
            if (outcome.equals("passed")) {
                line(outcome, test, "");
            }
        }

        private void line(String what, Description test, String why) {
            out.println(String.join("\t", what, String.valueOf(test.getMethodName()), why));
        }
    }
}
