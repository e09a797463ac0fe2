// Driver for kafkajs.
const { Kafka, CompressionTypes, Partitioners, logLevel } = require("kafkajs");

const emit = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
const text = (buffer) => (buffer === null ? null : buffer.toString());

function client(bootstrap) {
  return new Kafka({ clientId: "conformance-js", brokers: [bootstrap], logLevel: logLevel.ERROR });
}

async function readInput() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString().split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

async function produce(bootstrap, topic, compression, acks) {
  const messages = await readInput();
  // DefaultPartitioner is the Java one: murmur2.
  const producer = client(bootstrap).producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  await producer.send({
    topic,
    acks: acks === "all" ? -1 : Number(acks),
    compression: compression === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None,
    messages,
  });
  emit("acked", { count: messages.length });
  await producer.disconnect();
}

async function member(bootstrap, topic, group) {
  const consumer = client(bootstrap).consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200 });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    emit("assigned", { partitions: (payload.memberAssignment[topic] || []).slice().sort((a, b) => a - b) }));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: true,
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) =>
      emit("record", { partition, offset: Number(message.offset), key: text(message.key), value: text(message.value) }),
  });
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await consumer.disconnect();
    emit("left");
    process.exit(0);
  });
}

const [command, ...rest] = process.argv.slice(2);
({ produce, member })[command](...rest).catch((error) => {
  console.error(error);
  process.exit(1);
});
