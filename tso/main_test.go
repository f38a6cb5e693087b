package tso_test

import (
	"os"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.RunWaiting(m)) }
