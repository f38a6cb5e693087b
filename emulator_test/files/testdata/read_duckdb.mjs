// read_duckdb.mjs FILE…: DuckDB reads exports.
import { DuckDBInstance } from '@duckdb/node-api'
const c = await (await DuckDBInstance.create(':memory:')).connect()
await c.run("SET TimeZone = 'UTC'")
const number = f => f == null ? null : Number.isFinite(f) ? String(f) : f > 0 ? '+Inf' : '-Inf'
for (const path of process.argv.slice(2)) {
  const parquet = path.endsWith('.parquet')
  const rows = await c.runAndReadAll(parquet
    ? `SELECT decode(row), int::VARCHAR, float, bool, epoch_us(time)::VARCHAR, string, lower(hex(bytes)), small,
         [{k: e.key, v: lower(hex(e.value))} FOR e IN map_entries(columns)]::JSON
       FROM read_parquet('${path}')`
    : `SELECT coalesce(json->>'row', json->>'key'), columns->>'int', (columns->>'float')::DOUBLE, (columns->>'bool')::BOOLEAN, epoch_us((columns->>'time')::TIMESTAMPTZ)::VARCHAR,
         columns->>'string', lower(hex(coalesce(from_base64(columns->'bytes'->>'base64'), encode(columns->>'bytes')))), (columns->>'small')::INTEGER, columns::JSON
       FROM (SELECT json, coalesce(json->'columns', json) AS columns FROM read_ndjson_objects('${path}'))`)
  for (const [row, int, float, bool, time, string, bytes, small, rest] of rows.getRowsJS()) {
    const others = parquet ? (JSON.parse(rest) ?? []).map(e => [e.k, e.v])
      : Object.entries(JSON.parse(rest)).filter(([k]) => k.startsWith('name')).map(([k, v]) => [k, Buffer.from(v).toString('hex')])
    console.log(JSON.stringify({ row, int, float: number(float), bool, time, string, bytes, small: Number(small), ...Object.fromEntries(others) }))
  }
}
