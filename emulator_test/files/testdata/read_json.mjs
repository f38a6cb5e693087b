// read_json.mjs FILE…: node.js reads exports of JSON lines.
import { readFileSync } from 'node:fs'
const infinite = { Infinity: '+Inf', '-Infinity': '-Inf' }
for (const path of process.argv.slice(2))
  for (const line of readFileSync(path, 'utf8').trimEnd().split('\n')) {
    const { key, row = key, columns, ...flat } = JSON.parse(line)
    const { int, float, bool, time, string, bytes, small, ...rest } = columns ?? flat
    const hex = v => (typeof v === 'string' ? Buffer.from(v) : Buffer.from(v.base64, 'base64')).toString('hex')
    console.log(JSON.stringify({
      row, int: int?.toString(), float: float === undefined ? null : infinite[float] ?? String(float), bool,
      time: time && String(BigInt(Date.parse(time.replace(/\.\d+Z/, 'Z'))) * 1000n + BigInt((/\.(\d+)Z/.exec(time)?.[1] ?? '').padEnd(6, '0').slice(0, 6))),
      string, bytes: bytes && hex(bytes), small, ...Object.fromEntries(Object.entries(rest).map(([k, v]) => [k, hex(v)])),
    }))
  }
