package hermesmq;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Driver for the Java client: see README.md for the commands. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "produce" -> produce(arguments[1], arguments[2], arguments[3], arguments[4]);
            case "attempt" -> attempt(arguments[1], arguments[2]);
            case "member" -> member(arguments[1], arguments[2], arguments[3]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void produce(String bootstrap, String topic, String compression, String acks) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", compression);
        settings.put("acks", acks);
        settings.put("linger.ms", "5");
        settings.put("enable.idempotence", String.valueOf(acks.equals("all")));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> waiting = new ArrayList<>();
            for (String line : input().lines().toList()) {
                JsonNode row = JSON.readTree(line);
                waiting.add(producer.send(
                        new ProducerRecord<>(topic, row.get("key").asText(), row.get("value").asText())));
            }
            for (Future<RecordMetadata> one : waiting) {
                one.get(30, TimeUnit.SECONDS);
            }
            emit("acked", Map.of("count", waiting.size()));
        }
    }

    /** All lines in one batch; what became of each, then of one more record of the same producer. */
    private static void attempt(String bootstrap, String topic) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("linger.ms", "60000");
        settings.put("batch.size", String.valueOf(1 << 20));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> waiting = new ArrayList<>();
            for (String line : input().lines().toList()) {
                waiting.add(producer.send(record(topic, line)));
            }
            producer.flush();
            waiting.add(producer.send(new ProducerRecord<>(topic, 0, "last", "last")));
            producer.flush();
            for (Future<RecordMetadata> one : waiting) {
                emit("sent", outcome(one));
            }
        }
    }

    private static ProducerRecord<String, String> record(String topic, String line) throws IOException {
        JsonNode row = JSON.readTree(line);
        String key = row.get("key").isNull() ? null : row.get("key").asText();
        return new ProducerRecord<>(topic, 0, key, row.get("value").asText());
    }

    private static Map<String, Object> outcome(Future<RecordMetadata> one) throws Exception {
        try {
            return Map.of("offset", one.get(30, TimeUnit.SECONDS).offset());
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause();
            return Map.of("error", cause.getClass().getSimpleName(), "message", cause.getMessage());
        }
    }

    private static void member(String bootstrap, String topic, String group) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", "classic");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        AtomicBoolean leaving = new AtomicBoolean();
        Thread watcher = new Thread(() -> {
            input().lines().count();
            leaving.set(true);
        });
        watcher.setDaemon(true);
        watcher.start();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new Rebalances(consumer));
            while (!leaving.get()) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    Map<String, Object> fields = new LinkedHashMap<>();
                    fields.put("partition", record.partition());
                    fields.put("offset", record.offset());
                    fields.put("key", record.key());
                    fields.put("value", record.value());
                    fields.put("timestamp", record.timestamp());
                    fields.put("at", System.currentTimeMillis());
                    emit("record", fields);
                }
                if (!records.isEmpty()) {
                    consumer.commitSync();
                }
            }
        }
        emit("left", Map.of());
    }

    private record Rebalances(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            emit("assigned", Map.of("partitions",
                    consumer.assignment().stream().map(TopicPartition::partition).sorted().toList()));
        }
    }

    private static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    private static synchronized void emit(String event, Map<String, ?> fields) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("event", event);
        row.putAll(fields);
        try {
            System.out.println(JSON.writeValueAsString(row));
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }
}
