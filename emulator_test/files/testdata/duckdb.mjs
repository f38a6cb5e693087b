// duckdb.mjs INPUT DIR: DuckDB writes the rows of a Parquet file by each codec and version.
import { DuckDBInstance } from '@duckdb/node-api'
const [input, dir] = process.argv.slice(2)
const c = await (await DuckDBInstance.create(':memory:')).connect()
await c.run("SET TimeZone = 'UTC'")
for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI', 'ZSTD', 'LZ4_RAW'])
  for (const version of ['1', '2'])
    await c.run(`COPY (FROM '${input}') TO '${dir}/${codec} ${version}.parquet'
      (FORMAT parquet, COMPRESSION ${codec}, PARQUET_VERSION V${version}, ROW_GROUP_SIZE 2048)`)
