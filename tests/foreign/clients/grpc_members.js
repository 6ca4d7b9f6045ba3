// The official client of RocketMQ 5 for Node: four simple and four push consumers of a topic, which run until they
// are killed. Usage: grpc_members.js ENDPOINT TOPIC GROUP FAILING; prints a JSON line for each delivery.
const { ConsumeResult, FilterExpression, PushConsumer, SimpleConsumer } = require("rocketmq-client-nodejs");

const [endpoints, topic, group, failingText] = process.argv.slice(2);
const failing = Number(failingText);
const MEMBERS = 4;
const show = (line) => console.log(JSON.stringify(line));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const subscriptions = new Map([[topic, new FilterExpression("*")]]);
const failed = new Set();

// True for the first delivery of each message whose number is a multiple of FAILING.
function fails(by, body) {
  const name = `${by} ${body}`;
  if (!failing || Number(body.split("-").pop()) % failing || failed.has(name)) return false;
  failed.add(name);
  return true;
}

async function simple() {
  const consumer = new SimpleConsumer({ endpoints, consumerGroup: `${group}-simple`, subscriptions, awaitDuration: 5000 });
  await consumer.startup();
  show({ ready: true });
  for (;;) {
    try {
      for (const message of await consumer.receive(32, 15000)) {
        show({ by: "simple", body: message.body.toString(), failed: false });
        await consumer.ack(message).catch(() => {});
      }
    } catch (error) {
      await pause(200);
    }
  }
}

async function push() {
  const consume = async (message) => {
    const body = message.body.toString();
    const isFailure = fails("push", body);
    show({ by: "push", body, failed: isFailure });
    return isFailure ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const consumer = new PushConsumer({
    endpoints, consumerGroup: `${group}-push`, subscriptions, messageListener: { consume },
  });
  await consumer.startup();
  show({ ready: true });
}

for (let n = 0; n < MEMBERS; n++) {
  if (!failing) simple();
  push();
}
