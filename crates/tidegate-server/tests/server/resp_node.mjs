// Libraries of Node.js at the RESP listener: resp_node.mjs PORT [CA TOKEN]. Each decides, refuses in order in a pipeline,
// and reports an error, in plain mode and in cluster mode.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import Redis from "ioredis";
import Valkey from "iovalkey";
import { BasicClientSideCache, createClient, createClientPool, createCluster } from "redis";

const [port, authority, token] = process.argv.slice(2);
const host = "127.0.0.1";
const ca = authority && readFileSync(authority);
const DEEP = 100;
const ADMITTED = 50;

// `call` sends the words of one command, `pipeline` the same command so many times.
async function judge(name, isMap, call, pipeline) {
  const reply = await call(["TG.CHECK", "default", "COST", "2", "user", name]);
  const values = isMap ? reply : Object.fromEntries(reply.flatMap((_, i) => (i % 2 ? [] : [[reply[i], reply[i + 1]]])));
  assert.equal(Number(values.allowed), 1);
  assert.deepEqual([values.rule, values.remaining], ["per-user", 1]);
  const replies = await pipeline(["CL.THROTTLE", name, String(ADMITTED - 1), "1", "86400"], DEEP);
  assert.deepEqual(replies.map(([limited]) => limited), Array.from({ length: DEEP }, (_, i) => Number(i >= ADMITTED)));
  await assert.rejects(call(["CL.THROTTLE", name, "x", "1", "1"]), /Couldn't parse as integer: x/);
  await assert.rejects(call(["GET", name]), /unknown command/);
  console.log(name);
}

async function likeIoredis(name, redis) {
  redis.on("error", (error) => { throw error; });
  const pipeline = async (words, times) => {
    const all = redis.pipeline();
    for (let i = 0; i < times; i++) all.call(...words);
    return (await all.exec()).map(([error, reply]) => { assert.equal(error, null); return reply; });
  };
  await judge(name, false, (words) => redis.call(...words), pipeline);
  redis.disconnect();
}

async function nodeRedis(name, isMap, redis, call) {
  redis.on("error", (error) => { throw error; });
  await redis.connect();
  await judge(name, isMap, call, (words, times) => Promise.all(Array.from({ length: times }, () => call(words))));
  redis.destroy();
}

for (const [library, Client] of Object.entries({ ioredis: Redis, iovalkey: Valkey })) {
  const options = { host, port, ...(ca && { tls: { ca }, password: token }) };
  await likeIoredis(`${library} client`, new Client(options));
  await likeIoredis(`${library} cluster`, new Client.Cluster([{ host, port }], { redisOptions: options }));
}
const url = `${ca ? "rediss" : "redis"}://${host}:${port}`;
const guard = ca ? { password: token, socket: { tls: true, ca } } : {};
const cache = () => new BasicClientSideCache({ ttl: 60_000, maxEntries: 100 });
for (const [version, more] of [["RESP2", { RESP: 2 }], ["RESP3", { RESP: 3 }], ["cache", { RESP: 3, clientSideCache: cache() }]]) {
  const isMap = more.RESP === 3;
  const client = createClient({ url, ...guard, ...more });
  await nodeRedis(`node-redis ${version} client`, isMap, client, (words) => client.sendCommand(words));
  const cluster = createCluster({ rootNodes: [{ url }], defaults: { ...guard }, ...more });
  await nodeRedis(`node-redis ${version} cluster`, isMap, cluster, (words) => cluster.sendCommand(undefined, false, words));
}
const pool = createClientPool({ url, ...guard, RESP: 3 }, { minimum: 1, maximum: 1 });
await nodeRedis("node-redis RESP3 pool", true, pool, (words) => pool.sendCommand(words));
