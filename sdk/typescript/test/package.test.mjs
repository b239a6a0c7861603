// The package as published: installed from its tarball, with every snippet of README.md compiled
// and run.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { requestOf } from "./calls.mjs";
import { inPostgres, withPostgres } from "./stores.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(here, "README.md"), "utf8");

test("the page of the manual shows the first snippet", () => {
  const manual = readFileSync(join(here, "../../docs/participants.md"), "utf8");
  const [first] = readme.match(/```ts\n[^]*?\n```\n/);
  assert(manual.includes(first.replace("// charge.ts\n", "")), "docs/participants.md and README.md show different examples");
});

function npm(folder, ...args) {
  return execFileSync("npm", [...args, "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: folder, encoding: "utf8" });
}

if (withPostgres) {
  describe("the installed package", () => {
    let folder, store, saved;
    const load = (name) => import(pathToFileURL(join(folder, name + ".js")).href);
    before(async () => {
      folder = mkdtempSync(join(tmpdir(), "skald-participant-"));
      const [{ filename }] = JSON.parse(npm(here, "pack", "--json", "--pack-destination", folder));
      assert(statSync(join(folder, filename)).size < 30_000, "the package is larger than 30 kB");
      writeFileSync(join(folder, "package.json"), `{"name": "uses", "private": true, "type": "module"}`);
      npm(folder, "install", "--offline", "./" + filename);
      const installed = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")).packages;
      assert.deepEqual(Object.keys(installed), ["", "node_modules/@skald-saga/participant"], "it has dependencies");
      for (const name of ["pg", "hono", "express", "@types"]) {
        symlinkSync(join(here, "node_modules", name), join(folder, "node_modules", name));
      }
      for (const [, name, text] of readme.matchAll(/```ts\n\/\/ ([\w.]+)\.ts[^\n]*\n([^]*?)```/g)) {
        writeFileSync(join(folder, name + ".ts"), text);
      }
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({
        compilerOptions: { strict: true, module: "NodeNext", target: "ES2022", types: ["node"] },
      }));
      execFileSync(join(here, "node_modules/.bin/tsc"), ["-p", folder], { stdio: "inherit" });

      store = await inPostgres("snippets");
      saved = process.env.DATABASE_URL;
      const url = new URL(saved.replace("@/", "@localhost/"));
      url.searchParams.set("options", "-c search_path=snippets");
      process.env.DATABASE_URL = saved.includes("@/") ? url.href.replace("@localhost/", "@/") : url.href;
      await store.pool.query("DROP TABLE skald_calls; CREATE TABLE accounts (id text, balance int); INSERT INTO accounts VALUES ('a', 10)");
      await load("migrate");
    });
    after(async () => {
      await (await load("charge")).pool.end();
      process.env.DATABASE_URL = saved;
      await store.end();
      rmSync(folder, { recursive: true });
    });

    const order = (amount) => ({ saga: randomUUID(), payload: { account: "a", amount } });
    const balance = async () => (await store.pool.query("SELECT balance FROM accounts")).rows[0].balance;

    /** Charges twice and compensates, using one way of calling the example. */
    async function works(call) {
      const one = order(4);
      for (let attempt = 1; attempt <= 2; attempt++) {
        const answer = await call(requestOf({ ...one, attempt }));
        assert.deepEqual([answer.status, await answer.text()], [200, '{"charged":4}']);
      }
      assert.equal(await balance(), 6);
      const refused = await call(requestOf(order(40)));
      assert.deepEqual([refused.status, (await refused.json()).code], [409, "NO_FUNDS"]);
      assert.equal((await call(requestOf({ ...one, action: "compensate" }))).status, 200);
      assert.equal(await balance(), 10);
    }

    async function throughServer(server) {
      await once(server.listen(0, "127.0.0.1"), "listening");
      try {
        await works((request) => forwarded(request, `http://127.0.0.1:${server.address().port}/charges`));
      } finally {
        server.closeAllConnections();
        server.close();
      }
    }

    const forwarded = async (request, url) =>
      fetch(url, { method: "POST", headers: request.headers, body: await request.text() });

    test("charge.ts", async () => works((await load("charge")).charge));
    test("hono.ts", async () => {
      const { app } = await load("hono");
      await works(async (request) => app.request("/charges", request));
    });
    test("express.ts", async () => throughServer(createServer((await load("express")).app)));
    test("node:http", async () => {
      const { toNode } = await import("@skald-saga/participant/node");
      const { charge } = await load("charge"); // from another copy of the package
      await throughServer(createServer(toNode(charge)));
      assert.throws(() => toNode((request) => charge(request)), /participant\(\)/);
    });
    test("next.ts", async () => works((await load("next")).POST));
    test("worker.ts", async () => works((await load("worker")).default.fetch));
    test("purge.ts", async () => assert.equal((await load("purge")).purged, 0));
    test("charge.test.ts", async () => {
      assert.deepEqual((await load("charge.test")).answers, ['{"charged":5}', '{"charged":5}', 1]);
    });

    test("the example counts its effects", async () => {
      const example = spawn(process.execPath, [join(here, "example/charge.mjs")], {
        env: { ...process.env, PORT: "0" }, stdio: ["ignore", "pipe", "inherit"],
      });
      try {
        const [url] = await once(createInterface(example.stdout), "line");
        const call = { saga: randomUUID() };
        const key = `${call.saga}/charge/execute`;
        const count = async () => (await fetch(url.replace("/charges", "/effects?key=" + key))).json();
        assert.deepEqual(await count(), { effects: 0 });
        for (let n = 0; n < 2; n++) assert.equal((await forwarded(requestOf(call), url)).status, 200);
        assert.deepEqual(await count(), { effects: 1 });
        assert.equal((await forwarded(requestOf({ saga: randomUUID(), payload: {} }), url)).status, 422);
      } finally {
        example.kill();
        await once(example, "exit");
      }
    });
  });
}
