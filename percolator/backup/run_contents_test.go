package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/backup/backuppb"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var mixed = &percolator.Schema{Tables: []percolator.Table{
	{Name: "people", Indexes: []percolator.Index{{Name: "by-name", Column: "name"}, {Name: "by-mail", Column: "mail", Unique: true}}},
	{Name: "bytes"},
	{Name: "nothing"},
}}

// everything is written in a transaction each, deleted in part, and overwritten in part.
func fill(t *testing.T, c *percolator.Client) {
	t.Helper()
	v := values{}
	for i := range 40 {
		row := fmt.Sprintf("p%02d", i)
		v[cell("people", row, "name")] = fmt.Sprintf("name\x00%d", i%7)
		v[cell("people", row, "mail")] = fmt.Sprintf("%d@example", i)
		v[cell("people", row, "text")] = strings.Repeat("x", 100)
	}
	for _, row := range []string{"\x00", "\xff\xfe", "a\nb", strings.Repeat("k", 4096)} {
		v[cell("bytes", row, "\xff\n.*")] = "\x00\xff"
		v[cell("bytes", row, strings.Repeat("c", 2048))] = ""
	}
	set(t, c, v)
	_, err := c.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Delete(cell("people", "p00", "mail")), tx.Delete(cell("people", "p01", "text")),
			tx.Set(cell("people", "p02", "mail"), []byte("0@example")))
	})
	must(t, err)
	must(t, c.Flush(testContext(t)))
}

func TestEveryByteComesBack(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	store := backup.Dir(t.TempDir())
	m := run(t, env.Client, store, small)
	if len(m.Chunks) < 4 || m.Total.Rows != 44 || m.Total.Values != 40*3-2+8 || m.Total.Deletes+m.Total.Weak+m.Total.Notified != 0 {
		t.Errorf("%d chunks, %+v", len(m.Chunks), m.Total)
	}
	v, err := backup.Verify(testContext(t), store, nil)
	must(t, err)
	if len(v.Problems) > 0 || v.Verified != m.Total || v.Chunks != len(m.Chunks) {
		t.Errorf("verified %+v of %+v: %v", v.Verified, m.Total, v.Problems)
	}
	c := restored(t, env, store)
	equal(t, contents(t, c), contents(t, env.Client))
	for _, ix := range mixed.Tables[0].Indexes {
		report, err := admin.New(c).VerifyIndex(testContext(t), "people", ix.Name, admin.VerifyIndexOptions{})
		if err != nil || report.Entries == 0 {
			t.Errorf("index %s: %+v, %v", ix.Name, report, err)
		}
	}
	if _, err := backup.Run(testContext(t), env.Client, store, small); !errors.Is(err, backup.ErrComplete) {
		t.Errorf("a second backup into the same store: %v", err)
	}
	holds, err := admin.New(env.Client).Holds(testContext(t))
	if err != nil || len(holds) > 0 {
		t.Errorf("the backup left holds: %v, %v", holds, err)
	}
}

// A row that is larger than a chunk is a chunk, and its columns that are more than a request takes
// come back.
func TestLargeRows(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testLargeRows)
}

func testLargeRows(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	v := values{}
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for i := range 2 {
		v[cell("t", "wide", fmt.Sprint(i))] = string(noise[i:])
	}
	for i := range 5100 {
		v[cell("t", "many", fmt.Sprint(i))] = "v"
	}
	v[cell("t", "zero", "c")] = strings.Repeat("\x00", 5<<20)
	set(t, env.Client, v)
	store := backup.Dir(t.TempDir())
	if m := run(t, env.Client, store, small); len(m.Chunks) < 3 {
		t.Errorf("%d chunks of 3 rows", len(m.Chunks))
	}
	equal(t, contents(t, restored(t, env, store)), v)
}

// Some tables of an instance make a backup of their own.
func TestSomeTables(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	store := backup.Dir(t.TempDir())
	run(t, env.Client, store, backup.Options{Tables: []string{"bytes"}})
	got := contents(t, restored(t, env, store))
	want := contents(t, env.Client)
	for at := range want {
		if at.Table != "bytes" {
			delete(want, at)
		}
	}
	equal(t, got, want)
	_, err := backup.Run(testContext(t), env.Client, backup.Dir(t.TempDir()), backup.Options{Tables: []string{"absent"}})
	expect(t, err, percolator.ErrSchemaMismatch)
}

// What docs/internals/FORMATS.md says about reading by hand: a chunk is a zstd frame around one
// message, and the manifest's checksum is sha256sum's.
func TestReadByHand(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, mixed)
	fill(t, env.Client)
	dir := t.TempDir()
	m := run(t, env.Client, backup.Dir(dir), small)
	rows := 0
	for _, c := range m.Chunks {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(c.Name)))
		must(t, err)
		z, err := zstd.NewReader(bytes.NewReader(b))
		must(t, err)
		var raw bytes.Buffer
		_, err = raw.ReadFrom(z)
		must(t, err)
		z.Close()
		chunk := new(backuppb.Chunk)
		must(t, proto.Unmarshal(raw.Bytes(), chunk))
		rows += len(chunk.Rows)
	}
	if int64(rows) != m.Total.Rows {
		t.Errorf("%d rows, want %d", rows, m.Total.Rows)
	}
	if tool, err := exec.LookPath("sha256sum"); err == nil {
		cmd := exec.CommandContext(testContext(t), tool, "-c", "manifest.json.sha256")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
