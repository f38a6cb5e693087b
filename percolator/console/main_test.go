package console_test

import (
	"os"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/console"
)

func TestMain(m *testing.M) {
	code := fixture.RunWaiting(m)
	console.EndChromium()
	os.Exit(code)
}
