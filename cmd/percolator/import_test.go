package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var importSchema = &percolator.Schema{
	Tables: []percolator.Table{
		{Name: "users", Observed: []string{"mail"}, Indexes: []percolator.Index{{Name: "by-mail", Column: "mail", Unique: true}}},
		{Name: "phones", Columns: []percolator.ColumnSchema{{Name: "os_*"}, {Name: "age", Type: percolator.TypeInt64}, {Name: "seen", Type: percolator.TypeString}}},
		{Name: "copy", Columns: []percolator.ColumnSchema{{Name: "age", Type: percolator.TypeInt64}, {Name: "price", Type: percolator.TypeFloat64}}},
		{Name: "events", Columns: []percolator.ColumnSchema{{Name: "kind", Type: percolator.TypeString}, {Name: "count", Type: percolator.TypeInt64}}},
		{Name: "open"},
		{Name: "people", Columns: []percolator.ColumnSchema{
			{Name: "name", Type: percolator.TypeString}, {Name: "age", Type: percolator.TypeInt64}, {Name: "seen", Type: percolator.TypeTime}, {Name: "note"}}},
		{Name: "folk", Columns: []percolator.ColumnSchema{{Name: "name", Type: percolator.TypeString}, {Name: "age", Type: percolator.TypeInt64}}},
	},
	Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second},
}

// What differs from run to run in a session of imports.
var (
	fileTimes    = regexp.MustCompile(` bytes of <time>`)
	importTook   = regexp.MustCompile(`("seconds": )[0-9.e-]+`)
	importShows  = regexp.MustCompile(`(?m)^! (load|verify): .*\n`)
	mappingSums  = regexp.MustCompile(`by mapping [0-9a-f]{64}`)
	projectNames = regexp.MustCompile(`bigtable:[^/ ]+/[^/ ]+/`)
)

func (s *session) compareImport(name, dir string) {
	s.c.t.Helper()
	text := normalized(strings.ReplaceAll(s.text.String(), dir, "DIR"))
	text = fileTimes.ReplaceAllString(text, " bytes")
	text = importTook.ReplaceAllString(text, "${1}<n>")
	text = importShows.ReplaceAllString(text, "")
	text = mappingSums.ReplaceAllString(text, "by mapping <hash>")
	golden.Compare(s.c.t, name, projectNames.ReplaceAllString(text, "bigtable:P/I/"))
}

func TestImport(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testImport)
}

func testImport(t *testing.T) {
	t.Helper()
	cl, dir := newCluster(t, importSchema), t.TempDir()
	s := session{c: cl}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := func(row, mail string) string {
		return fmt.Sprintf("{\"row\": %q, \"columns\": {\"mail\": %q}}\n", row, mail)
	}

	// A file with two rows of one unique value, a line that is no row and a row without a key.
	bad := file("bad.jsonl", line("u1", "a@example.com")+"not a row\n"+line("", "b@example.com")+line("u2", "a@example.com"))
	s.run(cli.ExitUsage, "import", "users", "--from", bad)
	s.run(cli.ExitNotFound, "get", "users", "u1") // the table stays open
	// All of a file is read before.
	var late strings.Builder
	for i := range 1001 {
		late.WriteString(line(fmt.Sprint("u", i), fmt.Sprint(i)))
	}
	s.run(cli.ExitUsage, "import", "users", "--from", file("late.jsonl", late.String()+"not a row\n"))
	s.run(cli.ExitUsage, "import", "users", "--from", file("twice.jsonl", late.String()+line("u7", "other@example.com")))
	s.run(cli.ExitNotFound, "get", "users", "u1")
	s.run(cli.ExitConflict, "import", "users", "--from", bad, "--skip")
	s.run(cli.ExitConflict, "get", "users", "u1")
	good := file("good.jsonl", line("u1", "a@example.com")+"\n"+line("", "b@example.com")+line("u2", "b@example.com"))
	s.run(cli.ExitConflict, "import", "users", "--from", good)
	s.runWith(cli.ExitOK, "y\n", "import", "users", "--abort")
	s.run(cli.ExitOK, "import", "users", "--abort", "--yes")
	s.run(cli.ExitFindings, "import", "users", "--from", good, "--skip", "-o", "json")
	s.run(cli.ExitOK, "scan", "users")
	s.run(cli.ExitOK, "notify", "ls")
	s.run(cli.ExitConflict, "import", "users", "--from", good)

	// A plain Bigtable table, which is written to afterwards.
	plain := cl.plain("old-phones")
	plain("p1", "os_build", "A", "age", "7", "connected", "yes")
	plain("p2", "os_build", "B")
	mapping := file("phones.yaml", `
columns:
- {family: stats, qualifier: "os_*"}
- {family: stats, qualifier: age, text: true}
- {family: stats, qualifier: connected, column: seen}
`)
	s.run(cli.ExitOK, "import", "phones", "--from", "bigtable:old-phones", "--map", mapping, "--at", "2100-01-01T00:00:00Z")
	s.run(cli.ExitOK, "scan", "phones")
	s.run(cli.ExitOK, "adopt", "phones", "--from", "bigtable:old-phones", "--map", mapping)
	plain("p2", "os_build", "C", "age", "many")
	plain("p3", "age", "8")
	plain("p\xff", "age", "8")
	plain("p\xfe", "age", "8")
	time.Sleep(importSchema.Timing.MetaMaxAge) // until cl's client knows that the import has ended
	cl.set(map[percolator.Cell]string{{Table: "phones", Row: "p0", Column: "os_build"}: "extra"})
	s.run(cli.ExitFindings, "adopt", "phones", "--from", "bigtable:old-phones", "--map", mapping)
	s.run(cli.ExitFindings, "adopt", "phones", "--from", "bigtable:old-phones", "--map", mapping, "--mend", "-o", "json")
	plain("p2", "age", "9")
	s.run(cli.ExitOK, "adopt", "phones", "--from", "bigtable:old-phones", "--map", mapping, "--mend")
	s.run(cli.ExitOK, "scan", "phones")

	// Parquet whose columns do not fit: nothing is imported, and the table stays open.
	var b bytes.Buffer
	other, _ := catalog.New(&percolator.Schema{Tables: []percolator.Table{{Name: "copy", Columns: []percolator.ColumnSchema{{Name: "price", Type: percolator.TypeString}}}}}).UserTable("copy")
	if err := formats.NewTable(other).NewParquetWriter(&b).Close(); err != nil {
		t.Fatal(err)
	}
	s.run(cli.ExitUsage, "import", "copy", "--from", file("unfit.parquet", b.String()), "--skip")

	// Parquet, with a row whose number is none.
	b.Reset()
	info, _ := catalog.New(importSchema).UserTable("copy")
	w := formats.NewTable(info).NewParquetWriter(&b)
	for i, price := range []float64{2.5, math.Copysign(0, -1), math.NaN()} {
		cells := []formats.Cell{{Column: "age", Value: values.EncodeInt64(int64(i))}, {Column: "price", Value: values.EncodeFloat64(price)}}
		if _, err := w.Write(formats.Row{Key: fmt.Sprint(i), Cells: cells}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	numbers := file("copy.parquet", b.String())
	s.run(cli.ExitUsage, "import", "copy", "--from", file("undeclared.jsonl", `{"row": "1", "columns": {"name": "x"}}`))
	s.run(cli.ExitUsage, "import", "copy", "--from", numbers)
	s.run(cli.ExitFindings, "import", "copy", "--from", numbers, "--skip")
	// Parquet with columns that the table does not declare.
	s.run(cli.ExitUsage, "import", "open", "--from", numbers)
	s.run(cli.ExitUsage, "import", "phones", "--from", numbers, "--skip")
	s.run(cli.ExitUsage, "import", "open", "--from", file("number.jsonl", `{"row": "1", "columns": {"age": 7}}`))
	s.run(cli.ExitOK, "scan", "copy")

	// Parquet of another program, whose key is a number.
	b.Reset()
	type event struct {
		ID    int64  `parquet:"event_id"`
		Kind  string `parquet:"kind"`
		Count uint64 `parquet:"count"`
	}
	if err := parquet.Write(&b, []event{{1, "start", 5}, {2, "stop", 1 << 63}, {3, "start", 7}}); err != nil {
		t.Fatal(err)
	}
	events := file("events.parquet", b.String())
	s.run(cli.ExitUsage, "import", "events", "--from", events)
	s.run(cli.ExitUsage, "import", "events", "--from", events, "--key", "event_id")
	s.run(cli.ExitFindings, "import", "events", "--from", events, "--key", "event_id", "--skip")
	s.run(cli.ExitOK, "scan", "events")

	// CSV, whose header is refused before the table is closed, and a record as a line is.
	people := file("people.csv", "id,name,age,seen,note\r\n1,\"Ann \"\"A\"\"\",41,2024-01-02 03:04:05 UTC,\"\"\r\n2,Bob,many,,\r\n3,\"two\r\nlines\",,,x\r\n4,Dan\r\n")
	s.run(cli.ExitUsage, "import", "people", "--from", people, "--skip")
	s.run(cli.ExitUsage, "import", "folk", "--from", people, "--key", "id", "--skip")
	s.run(cli.ExitUsage, "import", "people", "--from", file("again.csv", "row,name,,name\n1,x,y,z\n"), "--skip")
	s.run(cli.ExitUsage, "import", "people", "--from", people, "--key", "id")
	s.run(cli.ExitUsage, "import", "people", "--from", file("spark.csv", "row,name\n1,\"an \\\"A\\\"\"\n2,x\n"))
	s.run(cli.ExitFindings, "import", "people", "--from", people, "--key", "id", "--skip")
	s.run(cli.ExitOK, "scan", "people")

	// Flat JSON lines, and the error of the one form that is read as the other.
	flat := file("flat.jsonl", `{"id": 1, "name": "Ann", "age": "41"}`+"\n"+`{"id": 2, "name": "Bob", "age": null}`+"\n"+`{"name": "Cy"}`+"\n")
	s.run(cli.ExitUsage, "import", "folk", "--from", flat)
	s.run(cli.ExitUsage, "import", "folk", "--from", good, "--key", "id")
	s.run(cli.ExitUsage, "import", "open", "--from", flat, "--key", "id")
	s.run(cli.ExitFindings, "import", "folk", "--from", flat, "--key", "id", "--skip")
	s.run(cli.ExitOK, "scan", "folk")

	for _, wrong := range [][]string{
		{"import", "copy"}, {"import", "copy", "--from", dir, "--key", "id"}, {"import", "copy", "--from", "x.txt"}, {"import", "copy", "--from", "bigtable:x"}, {"import", "copy", "--from", good, "--map", mapping},
		{"import", "copy", "--from", filepath.Join(dir, "none.jsonl")}, {"import", "copy", "--from", "bigtable:a/b", "--map", mapping},
		{"import", "copy", "--from", "bigtable:x", "--map", good}, {"import", "copy", "--abort", "--from", good}, {"adopt", "copy", "--from", good},
		{"adopt", "nowhere", "--from", "bigtable:old-phones", "--map", mapping},
		{"import", "copy", "--from", "bigtable:old-phones", "--map", mapping, "--at", "noon"},
	} {
		s.run(cli.ExitUsage, wrong...)
	}
	s.compareImport("import.txt", dir)
}

// plain makes a plain Bigtable table with a family stats, and returns what writes to a row of it
// qualifiers and values.
func (c *cluster) plain(name string) func(row string, cells ...string) {
	c.t.Helper()
	ctx := c.t.Context()
	a, err := bigtable.NewAdminClient(ctx, c.project, c.instance, c.options...)
	if err == nil {
		err = a.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{"stats": bigtable.MaxVersionsPolicy(1)}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	_ = a.Close()
	bt, err := bigtable.NewClient(ctx, c.project, c.instance, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = bt.Close() })
	table := bt.Open(name)
	return func(row string, cells ...string) {
		c.t.Helper()
		mut := bigtable.NewMutation()
		for i := 0; i < len(cells); i += 2 {
			mut.Set("stats", cells[i], bigtable.Now(), []byte(cells[i+1]))
		}
		if err := table.Apply(ctx, row, mut); err != nil {
			c.t.Fatal(err)
		}
	}
}
