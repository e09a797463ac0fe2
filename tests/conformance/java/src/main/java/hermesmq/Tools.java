package hermesmq;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other in this process, as their scripts would.
 *
 * <p>Per line of input: {"main": class, "arguments": [...], "input": text}. Per line of output:
 * {"code": exit code, "out": text, "err": text}. A start of a JVM per call would cost more than the call.
 */
public final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Integer exitCode;

    private Tools() {}

    /** Thrown where a tool ends the process; only the first code counts, as it would there. */
    private static final class Ended extends Error {
        Ended(int code) {
            super("exit " + code, null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        Exit.setShutdownHookAdder((name, hook) -> {});
        PrintStream answers = System.out;
        InputStream calls = System.in;
        BufferedReader lines = new BufferedReader(new InputStreamReader(calls, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(call(JSON.readTree(line))));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void end(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended(code);
    }

    private static Map<String, Object> call(JsonNode call) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        InputStream realIn = System.in;
        exitCode = null;
        System.setIn(new ByteArrayInputStream(call.path("input").asText("").getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int code;
        try {
            code = run(call.get("main").asText(), call.get("arguments"));
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(realOut);
            System.setErr(realErr);
            System.setIn(realIn);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("code", code);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }

    private static int run(String name, JsonNode words) throws Exception {
        List<String> arguments = new ArrayList<>();
        words.forEach(word -> arguments.add(word.asText()));
        Class<?> tool = Class.forName(name);
        forgetEarlierCalls(tool);
        int code = 0;
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace(System.err);
                code = 1;
            }
        }
        return exitCode == null ? code : exitCode;
    }

    /** ConsoleConsumer counts its records in a static field, since a process runs it once. */
    private static void forgetEarlierCalls(Class<?> tool) throws IllegalAccessException {
        for (Field field : tool.getDeclaredFields()) {
            if (field.getName().equals("messageCount")) {
                field.setAccessible(true);
                field.setInt(null, 0);
            }
        }
    }
}
