package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"testing"

	"cloud.google.com/go/bigtable"
	"github.com/klauspost/compress/zstd"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func forge(t *testing.T, s *memory, change func(m *backup.Manifest)) *memory {
	m, err := backup.ReadManifest(context.Background(), s)
	must(t, err)
	change(m)
	b, err := json.MarshalIndent(m, "", " ")
	must(t, err)
	out := &memory{objects: maps.Clone(s.objects)}
	sum := sha256.Sum256(b)
	out.objects["manifest.json"] = b
	out.objects["manifest.json.sha256"] = []byte(hex.EncodeToString(sum[:]))
	return out
}

// A small object claims a row of gigabytes.
func TestBomb(t *testing.T) {
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	store := newMemory()
	run(t, env.Client, store, small)
	var raw bytes.Buffer
	z, err := zstd.NewWriter(&raw)
	must(t, err)
	const size = 2 << 30
	_, err = z.Write(binary.AppendUvarint([]byte{0x0a}, size))
	must(t, err)
	_, err = z.Write(make([]byte, 1<<20)) // the rest would come if it were read
	must(t, err)
	must(t, z.Close())
	bad := forge(t, store, func(m *backup.Manifest) {
		sum := sha256.Sum256(raw.Bytes())
		m.Chunks[0].SHA256, m.Chunks[0].Bytes, m.Chunks[0].RawBytes = hex.EncodeToString(sum[:]), int64(raw.Len()), 1<<40
	})
	bad.objects[mustManifest(t, bad).Chunks[0].Name] = raw.Bytes()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err = backup.Verify(testContext(t), bad, nil)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("an object of %d bytes took %d MiB of memory (%v)", raw.Len(), n>>20, err)
	}
}

func mustManifest(t *testing.T, s backup.Store) *backup.Manifest {
	m, err := backup.ReadManifest(context.Background(), s)
	must(t, err)
	return m
}

func TestTraversal(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	mem := newMemory()
	run(t, env.Client, mem, small)
	for _, name := range []string{"../../etc/passwd", "/etc/passwd", "chunks/../../x", "", ".", "chunks"} {
		bad := forge(t, mem, func(m *backup.Manifest) { m.Chunks[0].Name = name })
		d := backup.Dir(t.TempDir())
		for n, b := range bad.objects {
			must(t, d.Put(context.Background(), n, b))
		}
		v, err := backup.Verify(testContext(t), d, nil)
		if err == nil || errors.Is(err, backup.ErrDamaged) {
			if err != nil || len(v.Problems) == 1 {
				continue
			}
		}
		t.Errorf("%q: %+v, %v, damaged %v", name, v, err, errors.Is(err, backup.ErrDamaged))
	}
}

// Chunks hold what the restore refuses, and Verify does not look.
func TestVerifyLooksAtSchema(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	mem := newMemory()
	run(t, env.Client, mem, small)
	for what, change := range map[string]func(m *backup.Manifest){
		"unknown table": func(m *backup.Manifest) { m.Chunks[0].Table = "u" },
		"schema":        func(m *backup.Manifest) { m.Schema = json.RawMessage(`{"x":1}`) },
		"no tables":     func(m *backup.Manifest) { m.Tables = nil },
		"chunk twice": func(m *backup.Manifest) {
			m.Chunks = append(m.Chunks, m.Chunks[0])
			m.Total.Add(m.Chunks[0].Counts)
		},
	} {
		v, err := backup.Verify(testContext(t), forge(t, mem, change), nil)
		if err == nil && len(v.Problems) == 0 {
			t.Errorf("%s: nothing noticed", what)
		}
	}
}

// The instance has the position of an index backfill that was broken off before its tables were emptied.
func TestStaleBackfillPosition(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	with := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "x", Column: "c"}}}}, Timing: quick}
	source := percolatortest.New(t, plain)
	set(t, source.Client, plainRows(300))
	must(t, percolator.CreateSchema(ctx, source.Project, source.Instance, with, source.Options()...))
	store := newMemory()
	m := run(t, source.NewClient(), store, backup.Options{})
	if len(m.IncompleteIndexes) != 1 {
		t.Fatal(m.IncompleteIndexes)
	}
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(300))
	must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, with, env.Options()...))
	c := env.NewClient()
	broken, interrupt := context.WithCancel(ctx)
	_, err := admin.New(c).BackfillIndex(broken, "t", "x", admin.BackfillOptions{RowsPerTransaction: 10, Concurrency: 1, Progress: func(p admin.BackfillProgress) {
		if p.Row > "0200" {
			interrupt()
		}
	}})
	interrupt()
	t.Logf("the former backfill: %v", err)
	for _, table := range []string{"t", "t.x"} {
		tbl := env.Store().Open(table)
		var rows []string
		must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool { rows = append(rows, r.Key()); return true }))
		for _, r := range rows {
			mut := bigtable.NewMutation()
			mut.DeleteRow()
			must(t, tbl.Apply(ctx, r, mut))
		}
	}
	must(t, errOf(backup.Restore(ctx, c, store, backup.RestoreOptions{})))
	u := env.NewClient()
	report, err := admin.New(u).BackfillIndex(ctx, "t", "x", admin.BackfillOptions{})
	must(t, err)
	n := 0
	snap, err := u.Snapshot(ctx)
	must(t, err)
	for _, err := range snap.ScanIndex(ctx, "t", "x", percolator.All()) {
		must(t, err)
		n++
	}
	if n != 300 {
		t.Errorf("resumed %v; the index is ready, and has %d of 300 entries", report.Resumed, n)
	}
}
