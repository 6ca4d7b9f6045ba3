'use strict';
// ali-ons (pure JavaScript). Usage: node ali_ons.js send|consume NAMESRV TOPIC GROUP COUNT PREFIX [fail-once] [IN_FLIGHT] [BODY_BYTES]
// One JSON line for each message sent or received, a summary line {"done": …} at the end; consume ends on SIGTERM or after COUNT distinct bodies.
const { Consumer, Producer, Message } = require('ali-ons');
const { ACTION_RETRY } = Consumer;

const [verb, nameSrv, topic, group, countText, prefix, mode, inFlightText, sizeText] = process.argv.slice(2);
const count = Number(countText);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const common = { nameSrv, accessKeyId: process.env.ACCESS_KEY || 'unused', accessKeySecret: process.env.SECRET_KEY || 'unused', httpclient: {}, logger: quiet };
const print = value => process.stdout.write(JSON.stringify(value) + '\n');

async function send() {
  const producer = new Producer({ ...common, producerGroup: group, sendMsgTimeout: 60000 });
  producer.on('error', error => print({ error: String(error) }));
  await producer.ready();
  const started = process.hrtime.bigint();
  let next = 0;
  const padding = 'x'.repeat(Math.max(0, Number(sizeText || 0)));
  async function lane() {
    while (next < count) {
      const n = next++;
      const message = new Message(topic, `tag${n % 3}`, `${prefix}-${n}${padding}`);
      message.keys = [`${prefix}-key-${n}`];
      const result = await producer.send(message);
      if (mode !== 'quiet') print({ n, status: result.sendStatus, msgId: result.msgId, queueOffset: result.queueOffset });
    }
  }
  await Promise.all(Array.from({ length: Number(inFlightText || 1) }, lane));
  print({ done: count, seconds: Number(process.hrtime.bigint() - started) / 1e9 });
  await producer.close();
  process.stdout.write('', () => process.exit(0));
}

async function consume() {
  const consumer = new Consumer({ ...common, consumerGroup: group, pullBatchSize: 32 });
  consumer.on('error', error => print({ error: String(error) }));
  const failed = new Set();
  const seen = new Set();
  let started = 0n;
  consumer.subscribe(topic, '*', async message => {
    if (!started) started = process.hrtime.bigint();
    const body = message.body.toString();
    if (mode === 'fail-once' && !failed.has(body)) {
      failed.add(body);
      return ACTION_RETRY;
    }
    seen.add(body);
    if (mode !== 'quiet') {
      print({ member: process.env.MEMBER, body, tags: message.tags, keys: message.keys, msgId: message.msgId, reconsumeTimes: message.reconsumeTimes, queueId: message.queueId, at: performance.timeOrigin + performance.now() });
    }
    if (seen.size === count) {
      print({ done: seen.size, seconds: Number(process.hrtime.bigint() - started) / 1e9 });
      setTimeout(() => consumer.close().then(() => process.stdout.write('', () => process.exit(0))), mode === 'quiet' ? 0 : 200);
    }
  });
  await consumer.ready();
  print({ ready: true });
  process.on('SIGTERM', () => consumer.close().then(() => process.stdout.write('', () => process.exit(0))));
}

(verb === 'send' ? send() : consume()).catch(error => {
  print({ error: String(error && error.stack || error) });
  process.exit(1);
});
