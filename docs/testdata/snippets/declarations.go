// Package snippet is what surrounds a piece of Go in the documentation: here, declarations.
package snippet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// What a piece may use without saying where it comes from.
var (
	_ context.Context
	_ testing.TB
	_ = errors.Join
	_ = fmt.Sprint
	_ = time.Second
	_ = tso.At
	_ = observers.NewRegistry
	_ = percolator.All
	_ = percolatortest.New
)

// SNIPPET
