'use strict';
// rocketmq-nodejs (the C++ client 2.x as a native addon). Same usage as ali_ons.js.
const { Producer, PushConsumer } = require('rocketmq-nodejs');

const [verb, nameServer, topic, group, countText, prefix, mode, inFlightText, sizeText] = process.argv.slice(2);
const count = Number(countText);
const options = { nameServer, groupName: group, logLevel: 'error', sendMessageTimeout: 60000 };
const { ACCESS_KEY, SECRET_KEY } = process.env;
const print = value => process.stdout.write(JSON.stringify(value) + '\n');

// The addon joins its event loop in a static destructor, which now and then never ends: everything is done and shut down by
// then, so the process goes without destructors.
const leave = () => process.stdout.write('', () => process.kill(process.pid, 'SIGKILL'));

async function send() {
  const producer = new Producer(group, options);
  if (ACCESS_KEY) producer.setSessionCredentials(ACCESS_KEY, SECRET_KEY, 'LOCAL');
  await producer.start();
  const started = process.hrtime.bigint();
  let next = 0;
  const padding = 'x'.repeat(Math.max(0, Number(sizeText || 0)));
  async function lane() {
    while (next < count) {
      const n = next++;
      const result = await producer.send(topic, `${prefix}-${n}${padding}`, { tags: `tag${n % 3}`, keys: `${prefix}-key-${n}` });
      if (mode !== 'quiet') print({ n, status: result.statusStr, msgId: result.msgId, queueOffset: result.offset });
    }
  }
  await Promise.all(Array.from({ length: Number(inFlightText || 1) }, lane));
  print({ done: count, seconds: Number(process.hrtime.bigint() - started) / 1e9 });
  await producer.shutdown();
  leave();
}

async function consume() {
  const consumer = new PushConsumer(group, { ...options, threadCount: 3 });
  if (ACCESS_KEY) consumer.setSessionCredentials(ACCESS_KEY, SECRET_KEY, 'LOCAL');
  const failed = new Set();
  const seen = new Set();
  let started = 0n;
  let ending = false;
  const end = async () => {
    if (ending) return;
    ending = true;
    await consumer.shutdown();
    leave();
  };
  consumer.subscribe(topic, '*');
  consumer.on('message', (message, ack) => {
    if (!started) started = process.hrtime.bigint();
    const body = String(message.body);
    if (mode === 'fail-once' && !failed.has(body)) {
      failed.add(body);
      ack.done(false);
      return;
    }
    seen.add(body);
    if (mode !== 'quiet') print({ body, tags: message.tags, keys: message.keys, msgId: message.msgId });
    ack.done();
    if (seen.size === count) {
      print({ done: seen.size, seconds: Number(process.hrtime.bigint() - started) / 1e9 });
      setTimeout(end, 200);
    }
  });
  await consumer.start();
  print({ ready: true });
  process.on('SIGTERM', end);
}

(verb === 'send' ? send() : consume()).catch(error => {
  print({ error: String(error && error.stack || error) });
  process.exit(1);
});
