package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/text"
)

// What a backup of others says of itself reaches the terminal only in a form that it does not obey.
func TestBackupsOfOthersArePrintable(t *testing.T) {
	t.Parallel()
	const plan = `{"format": 1, "id": "\u001b[2J\u001b]0;title\u0007", "schema": {"tables": [{"name": "t"}]}, "tables": [], "chunks": []}`
	sum := sha256.Sum256([]byte(plan))
	for name, objects := range map[string]map[string]string{
		"complete":   {"plan.json": plan, "manifest.json": plan, "manifest.json.sha256": hex.EncodeToString(sum[:]) + "  manifest.json\n"},
		"unfinished": {"plan.json": plan},
	} {
		dir := t.TempDir()
		for object, content := range objects {
			if err := os.WriteFile(filepath.Join(dir, object), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range []string{"ls", "verify"} {
			var out bytes.Buffer
			code := execute(t.Context(), []string{"backup", command, dir}, strings.NewReader(""), &out, &out)
			if said := out.String(); text.Lines(said) != said {
				t.Errorf("%s backup, %s: exit status %d, %s", name, command, code, fmt.Sprintf("%q", said))
			}
		}
	}
}
