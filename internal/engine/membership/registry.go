// Package membership lets the processes of an instance know of each other: which workers divide the
// tables among themselves, and what every process reports about itself. It stands above package
// engine, beside package gc and package transfer. Its one idea is the registry: nothing that must
// be correct depends on one.
package membership

import (
	"context"
	"encoding/json"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// registry is a row of percolator_meta in which every process has one cell of JSON. Only the
// process writes it, so it needs no condition, and one read shows all processes at one instant. An
// entry expires unless its process writes it again; any process may then erase it.
type registry struct {
	row    string
	prefix string // of the columns with entries; the name of the process follows
	limit  int    // cells that one read returns
}

const (
	maxName       = 64
	maxEntryBytes = 4096
	removedAtOnce = 32 // dead entries that one read leads to the removal of
)

// column returns the column of a process.
func (r registry) column(name string) string { return r.prefix + name }

// read returns the cells whose columns begin with prefix.
func (r registry) read(ctx context.Context, e *engine.Engine, prefix string) ([]layout.Item, error) {
	row, err := e.Store.ReadRow(ctx, model.MetaTable, r.row, store.Cells(prefix, r.limit))
	return row.Of(layout.MetaFamily), err
}

// write replaces the entry of a process.
func (r registry) write(ctx context.Context, e *engine.Engine, name string, entry []byte) error {
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, r.column(name), store.MetaTimestamp, entry)
	return e.Store.Mutate(ctx, model.MetaTable, r.row, mut)
}

// remove erases the entry of a process, which calls it before the entry expires.
func (r registry) remove(ctx context.Context, e *engine.Engine, name string) error {
	mut := store.NewMutation(2)
	mut.EraseColumn(layout.MetaFamily, r.column(name))
	return e.Store.Mutate(ctx, model.MetaTable, r.row, mut)
}

// prune erases some dead entries, given by column, unless they have changed since they were read.
func (r registry) prune(ctx context.Context, e *engine.Engine, dead map[string][]byte) error {
	columns := slices.Sorted(maps.Keys(dead))
	for _, column := range columns[:min(len(columns), removedAtOnce)] {
		if _, err := e.Store.CompareAndSet(ctx, r.row, column, dead[column], nil); err != nil {
			return err
		}
	}
	return nil
}

// decode reads an entry and returns the name of its process.
func (r registry) decode(column string, b []byte, entry any) (name string, ok bool) {
	name, ok = strings.CutPrefix(column, r.prefix)
	return name, ok && validName(name) && len(b) <= maxEntryBytes && json.Unmarshal(b, entry) == nil
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name)
}

// modulePath is this module's, in the build information of a program.
const modulePath = "github.com/gopercolator/percolator"

// ModuleVersion returns the version of this module that the program was built with, at most 128
// bytes; "" if the program does not tell.
func ModuleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath {
				return m.Version[:min(len(m.Version), 128)]
			}
		}
	}
	return ""
}
