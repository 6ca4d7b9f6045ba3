// The official client of RocketMQ 5 for Node: sends COUNT messages of each kind, receives them by both consumers.
// Usage: grpc_node.js ENDPOINT TOPIC COUNT; prints JSON lines.
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require("rocketmq-client-nodejs");

const [endpoints, topic, countText] = process.argv.slice(2);
const count = Number(countText);
const show = (line) => console.log(JSON.stringify(line));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function shown(by, message) {
  const { body, corrupted, keys, tag, deliveryAttempt: attempt } = message;
  return { by, body: body.toString(), corrupted: Boolean(corrupted), keys: [...(keys || [])], tag, attempt };
}

async function main() {
  const producer = new Producer({ endpoints, topics: [topic, `${topic}-2`, `${topic}-3`] });
  await producer.startup();
  const sent = [];
  for (let n = 0; n < count; n++) {
    sent.push({ body: `normal-${n}`, tag: "t", keys: [`k${n}`] }, { body: `fifo-${n}`, messageGroup: "g" });
  }
  sent.push({ body: "delayed-0", delay: 2000 });
  for (const { body, ...more } of sent) await producer.send({ topic, body: Buffer.from(body), ...more });
  show({ sent: sent.map(({ body }) => body) });
  const subscriptions = new Map([[topic, new FilterExpression("*")]]);
  const simple = new SimpleConsumer({ endpoints, consumerGroup: `${topic}-simple`, subscriptions, awaitDuration: 5000 });
  await simple.startup();
  for (let got = 0; got < sent.length; ) {
    for (const message of await simple.receive(16, 15000)) {
      show(shown("simple", message));
      await simple.ack(message);
      got++;
    }
  }
  await simple.shutdown();
  const failed = new Set();
  let done = 0;
  const consume = async (message) => {
    const line = shown("push", message);
    const fails = line.body.startsWith("normal") && !failed.has(line.body);
    show({ ...line, fails });
    if (fails) failed.add(line.body);
    else done++;
    return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const group = { endpoints, consumerGroup: `${topic}-push`, subscriptions };
  const push = new PushConsumer({ ...group, messageListener: { consume } });
  await push.startup();
  while (done < sent.length) await pause(100);
  await pause(1000);
  show({ done: true });
  process.exit(0);
}

main().catch((error) => {
  show({ error: String(error.stack) });
  process.exit(1);
});
