package sluice

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	if err := Pause(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
