package files_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// DuckDB loads what is written with the statements of docs/DATA.md (make files).
func TestStatementsOfThePage(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "documents", Columns: []percolator.ColumnSchema{
		{Name: "title", Type: percolator.TypeString}, {Name: "size", Type: percolator.TypeInt64}, {Name: "rank", Type: percolator.TypeOrderedInt64},
		{Name: "score", Type: percolator.TypeFloat64}, {Name: "public", Type: percolator.TypeBool}, {Name: "seen", Type: percolator.TypeTime},
		{Name: "meta", Type: percolator.TypeJSON}, {Name: "raw"}}}}})
	ctx := fixture.Context(t)
	seen := time.Date(2026, 1, 31, 15, 4, 5, 123456789, time.UTC)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(
			percolator.String("documents", "title").Set(tx, "a", "é"),
			percolator.Int64("documents", "size").Set(tx, "a", -7),
			percolator.OrderedInt64("documents", "rank").Set(tx, "a", math.MinInt64),
			percolator.Float64("documents", "score").Set(tx, "a", 0.1),
			percolator.Bool("documents", "public").Set(tx, "a", true),
			percolator.Time("documents", "seen").Set(tx, "a", seen),
			percolator.JSON[map[string]int]("documents", "meta").Set(tx, "a", map[string]int{"n": 3}),
			percolator.Bytes("documents", "raw").Set(tx, "a", []byte{0xff, 0}),
			percolator.String("documents", "title").Set(tx, "b", "only a title"),
			percolator.String("documents", "title").Set(tx, "c", ""),
		)
	}))
	data, err := os.ReadFile("../../docs/DATA.md")
	fixture.Must(t, err)
	_, after, _ := strings.Cut(string(data), "```sql\n")
	block, _, _ := strings.Cut(after, "```")
	statements := strings.Split(strings.TrimSpace(block), "\n")
	text := []string{"title", "size", "rank", "score", "public", "seen", "meta"}
	if len(statements) != 3 {
		t.Fatalf("statements of DATA.md: %q", statements)
	}
	for i, o := range []export.Options{{}, {Format: export.JSONLines}, {Format: export.JSONLines, Key: "key"}, {Format: export.CSV, Key: "key", Columns: text}} {
		dir := t.TempDir()
		o.Table = "documents"
		_, err := export.Run(ctx, env.Client, backup.Dir(dir), o)
		fixture.Must(t, err)
		statement := strings.Replace(statements[(i+1)/2], "'documents/", "'"+dir+"/", 1)
		got := node(t, `
import { DuckDBInstance } from '@duckdb/node-api'
const c = await (await DuckDBInstance.create(':memory:')).connect()
await c.run(process.argv[2])
for (const q of ['SELECT column_name, column_type FROM (DESCRIBE documents)', 'FROM documents'])
  for (const r of (await c.runAndReadAll(q)).getRowsJson()) console.log(JSON.stringify(r))
`, statement)
		if want := duckdb[i]; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", statement, got, want)
		}
	}
}

// duckdb has the columns and rows of the tables that DuckDB makes by each statement.
var duckdb = []string{
	`["key","VARCHAR"]
["columns","MAP(VARCHAR, BLOB)"]
["meta","JSON"]
["public","BOOLEAN"]
["rank","BIGINT"]
["raw","BLOB"]
["score","DOUBLE"]
["seen","TIMESTAMP WITH TIME ZONE"]
["size","BIGINT"]
["title","VARCHAR"]
["a",null,"{\"n\":3}",true,"-9223372036854775808","\\xFF\\x00",0.1,"2026-01-31 15:04:05.123456+00","-7","é"]
["b",null,null,null,null,null,null,null,null,"only a title"]
["c",null,null,null,null,null,null,null,null,""]
`,
	`["row","VARCHAR"]
["columns","STRUCT(meta STRUCT(n BIGINT), public BOOLEAN, rank BIGINT, raw STRUCT(base64 VARCHAR), score DOUBLE, seen VARCHAR, size BIGINT, title VARCHAR)"]
["a",{"meta":{"n":"3"},"public":true,"rank":"-9223372036854775808","raw":{"base64":"/wA="},"score":0.1,"seen":"2026-01-31T15:04:05.123456789Z","size":"-7","title":"é"}]
["b",{"meta":null,"public":null,"rank":null,"raw":null,"score":null,"seen":null,"size":null,"title":"only a title"}]
["c",{"meta":null,"public":null,"rank":null,"raw":null,"score":null,"seen":null,"size":null,"title":""}]
`,
	`["key","VARCHAR"]
["meta","STRUCT(n BIGINT)"]
["public","BOOLEAN"]
["rank","BIGINT"]
["raw","STRUCT(base64 VARCHAR)"]
["score","DOUBLE"]
["seen","VARCHAR"]
["size","BIGINT"]
["title","VARCHAR"]
["a",{"n":"3"},true,"-9223372036854775808",{"base64":"/wA="},0.1,"2026-01-31T15:04:05.123456789Z","-7","é"]
["b",null,null,null,null,null,null,null,"only a title"]
["c",null,null,null,null,null,null,null,""]
`,
	`["key","VARCHAR"]
["title","VARCHAR"]
["size","BIGINT"]
["rank","BIGINT"]
["score","DOUBLE"]
["public","BOOLEAN"]
["seen","TIMESTAMP WITH TIME ZONE"]
["meta","VARCHAR"]
["a","é","-7","-9223372036854775808",0.1,true,"2026-01-31 15:04:05.123456+00","{\"n\":3}"]
["b","only a title",null,null,null,null,null,null]
["c","",null,null,null,null,null,null]
`,
}
