package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// script runs a command with a script on its standard input, which the session shows as in a shell.
func (s *session) script(code int, text string, args ...string) {
	s.c.t.Helper()
	before := s.text.String()
	s.runWith(code, text, args...)
	command, output, _ := strings.Cut(strings.TrimPrefix(s.text.String(), before), "\n")
	s.text.Reset()
	s.text.WriteString(before + command + " <<'END'\n" + text + "END\n" + output)
}

func TestTxn(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	before := cl.set(map[percolator.Cell]string{
		{Table: "accounts", Row: "alice", Column: "balance"}: "10",
		{Table: "accounts", Row: "bob", Column: "balance"}:   "2",
	})
	transfer := `# Seven from Alice to Bob.
require accounts alice balance = 10
get-for-update accounts bob balance
set accounts alice balance 3
set accounts bob balance 9   # was 2
insert accounts 'the bank' log "7 from alice to bob; \"thanks\""
get accounts alice balance overdraft
scan --limit 2 accounts
notify documents com.example/ recount
`
	s := session{c: cl}
	s.script(exitOK, transfer, "txn", "--dry-run")
	s.script(exitOK, transfer, "txn", "--dry-run", "-o", "json")
	s.script(exitOK, transfer, "txn")
	s.script(exitConflict, transfer, "txn")
	s.script(exitConflict, transfer, "txn", "-o", "json")
	s.script(exitConflict, "insert accounts 'the bank' log again\n", "txn")
	s.script(exitConflict, "insert accounts 'the bank' log again\n", "txn", "--dry-run")
	s.script(exitOK, "set --hex accounts raw bytes 00ff\ndel accounts bob balance\nscan accounts\n", "txn", "-o", "json")
	s.script(exitOK, "get accounts alice\nrequire accounts alice balance present\nrequire accounts bob balance absent\nscan --prefix x accounts\n", "txn")
	s.script(exitConflict, "get accounts alice\nrequire accounts alice balance absent\n", "txn", "-")
	s.script(exitUsage, "get accounts alice\n\nset accounts alice balance\n", "txn")
	s.script(exitUsage, "get accounts alice\nput accounts alice balance 1\n", "txn")
	s.script(exitUsage, "# nothing\nset nowhere alice balance 1\n", "txn")
	s.script(exitOK, "", "txn")
	s.compare("txn.txt")

	old := cl.runWith("get accounts alice balance\nrequire accounts bob balance = 2\n", "txn", "--as-of", committed(before))
	if old.code != exitOK || !strings.Contains(old.out, " 10\n") || !strings.Contains(old.out, "read at "+committed(before)) {
		t.Errorf("as of the beginning: exit status %d, %q, %q", old.code, old.out, old.stderr)
	}
}

// TestWrongScripts: what is wrong with a script is said with its line, and nothing of it is run.
func TestWrongScripts(t *testing.T) {
	t.Parallel()
	for script, names := range map[string]string{
		"set t r c 'v":             "quote",
		"set t r c v; del t r c":   ";",
		"set t r c v > file":       ">",
		"set t r c \xff":           "UTF-8",
		"set t r c":                "arguments",
		"set t r c v w":            "arguments",
		"set --hex t r c 0":        "hexadecimal",
		"set --base64 t r c 0":     "base64",
		"get t":                    "arguments",
		"get-for-update t r":       "arguments",
		"require t r c":            "arguments",
		"require t r c =":          "require",
		"require t r c maybe":      "require",
		"require t r c absent v":   "require",
		"scan":                     "arguments",
		"scan --limit x t":         "limit",
		"scan --limit -1 t":        "limit",
		"scan --prefix a --to b t": "prefix",
		"scan --index i t c":       "index",
		`get t '"r'`:               "quotes",
		"begin":                    "begin",
		"set t r c (v)":            "not quoted",
	} {
		_, err := parseScript([]byte("# first\n\n" + script))
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "line 3: ") || !strings.Contains(err.Error(), names) {
			t.Errorf("%.40q: %.200v; want wrong usage in line 3 that names %q", script, err, names)
		}
	}
	cl := newCluster(t, cellSchema())
	for _, wrong := range [][]string{{"txn", "none"}, {"txn", "a", "b"}, {"txn", "-o", "xml"}, {"txn", "--max-attempts", "-1"}} {
		cl.must(exitUsage, wrong...)
	}
	for _, r := range []result{
		cl.runWith("set accounts a b c\n", "txn", "--as-of", "1s"), cl.runWith("get-for-update accounts a b\n", "txn", "--as-of", "1s"),
		cl.runWith("set accounts a b 1\nnonsense\n", "txn"),
	} {
		if r.code != exitUsage || !strings.Contains(r.stderr, "line ") {
			t.Errorf("exit status %d, %q", r.code, r.stderr)
		}
	}
	cl.must(exitNotFound, "get", "accounts", "a")
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := cl.must(exitUsage, "txn", file); !strings.Contains(r.stderr, file+": line 1: ") {
		t.Errorf("printed %q, which does not name the file", r.stderr)
	}
}

// meddler is an oracle on whose first timestamps something happens before they arrive: for a
// transaction that has just begun, too late.
type meddler struct {
	tso.Oracle
	left   atomic.Int64
	meddle func()
}

func (m *meddler) Next(ctx context.Context) (tso.Timestamp, error) {
	ts, err := m.Oracle.Next(ctx)
	if m.left.Add(-1) >= 0 {
		m.meddle()
	}
	return ts, err
}

// TestTxnConflicts: a script that conflicts runs again with new reads, and only the last attempt is
// shown.
func TestTxnConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		conflicts int64
		code      int
		want      string
	}{
		{"once", 1, exitOK, "in attempt 2"},
		{"too often", 3, exitConflict, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(t, cellSchema())
			cell := percolator.Cell{Table: "accounts", Row: "alice", Column: "balance"}
			n := 0
			oracle := &meddler{Oracle: cl.oracle, meddle: func() {
				n++
				cl.set(map[percolator.Cell]string{cell: strings.Repeat("i", n)})
			}}
			ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
			defer cancel()
			client, err := percolator.NewClient(ctx, percolator.Config{Project: cl.project, Instance: cl.instance, Oracle: oracle}, cl.options...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			script, err := parseScript([]byte("get accounts alice balance\nset accounts alice balance mine\n"))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := newTxn()
			cmd.SetOut(&out)
			f := txnFlags{maxAttempts: 3, queryFlags: queryFlags{output: outputFlag{outputTable}}}
			oracle.left.Store(c.conflicts)
			err = f.commit(ctx, cmd, client, script)
			if exitCode(err) != c.code || !strings.Contains(out.String(), c.want) || c.code != exitOK && out.Len() > 0 {
				t.Fatalf("%v, printed %q", err, out.String())
			}
			if reads := strings.Count(out.String(), "alice"); c.code == exitOK && (reads != 1 || !strings.Contains(out.String(), " i\n")) {
				t.Errorf("printed %q, want what the second attempt read, once", out.String())
			}
		})
	}
}

// TestTxnRequireHolds: a cell that is required and not written conflicts with who changes it
// meanwhile.
func TestTxnRequireHolds(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	limit := percolator.Cell{Table: "accounts", Row: "alice", Column: "limit"}
	cl.set(map[percolator.Cell]string{limit: "yes"})
	oracle := &meddler{Oracle: cl.oracle, meddle: func() { cl.set(map[percolator.Cell]string{limit: "no"}) }}
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	client, err := percolator.NewClient(ctx, percolator.Config{Project: cl.project, Instance: cl.instance, Oracle: oracle}, cl.options...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	script, err := parseScript([]byte("require accounts alice limit = yes\nset accounts alice balance 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := newTxn()
	cmd.SetOut(new(bytes.Buffer))
	f := txnFlags{queryFlags: queryFlags{output: outputFlag{outputTable}}}
	oracle.left.Store(1)
	if err := f.commit(ctx, cmd, client, script); exitCode(err) != exitConflict || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v; want that the requirement of line 1 does not hold", err)
	}
	cl.must(exitNotFound, "get", "accounts", "alice", "balance")
}

// Lines are taken apart as by a shell: what a backslash means depends on the quotes.
func TestSplitLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`set "C:\new\table" x`: {"set", `C:\new\table`, "x"}, `a\nb 'c\n' "\q\"\\\$"`: {"anb", `c\n`, `\q"\$`},
		`a#b #c`: {"a#b"}, `'' ""`: {"", ""}, `'a'"b"c`: {"abc"}, "a\r": {"a"}, `a\ b`: {"a b"},
	} {
		if got, err := splitLine(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`set t a f $(a b)`, "set t a g `a b`", `a; b`, `a "b`, `a 'b`, `a \`, "a \xff"} {
		if got, err := splitLine(in); err == nil {
			t.Errorf("%s: accepted as %q", in, got)
		}
	}
}

// A script beyond the limit is refused as a whole, whatever ends its lines: the end that is cut off
// might have been the half of a value.
func TestLongScript(t *testing.T) {
	t.Parallel()
	head, line := "set t a v 1\r\n", "#"+strings.Repeat("x", 200)+"\r\n"
	text := head + strings.Repeat(line, (maxScriptBytes-len(head))/len(line)) + "set t a amount 100000000\r\n" + strings.Repeat(line, 2) + "set t b v 2\r\n"
	cmd := newTxn()
	cmd.SetContext(t.Context())
	cmd.SetIn(strings.NewReader(text))
	if script, err := openScript(cmd, nil); exitCode(err) != exitUsage {
		t.Errorf("%d statements, %v", len(script), err)
	}
}
