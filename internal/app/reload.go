package app

import (
	"context"
	"log/slog"

	"github.com/skald-saga/skald/internal/config"
)

// watchHangup reloads on every request, until ctx ends, whatever can be reloaded without a restart.
func (n *node) watchHangup(ctx context.Context) {
	for {
		select {
		case <-n.opt.Hangup:
			n.reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload reloads the watched files immediately, applies a new log level, and logs which other
// settings have changed. Those take effect only after a restart.
func (n *node) reload() {
	log := n.opt.Log
	for _, r := range n.read {
		if err := r.now(); err != nil {
			unreadable(n.opt.Log, r.setting)(err)
			continue
		}
		log.Info("read again", slog.String("setting", r.setting))
	}
	if n.opt.Load == nil {
		return
	}
	next, err := n.opt.Load()
	if err != nil {
		log.Error("the settings have errors; the previous ones stay in use", slog.Any("error", err))
		return
	}
	var restart []string
	for _, key := range config.Changed(n.loaded, next) {
		if key != "log.level" || n.opt.Level == nil {
			restart = append(restart, key)
			continue
		}
		var level slog.Level
		if level.UnmarshalText([]byte(next.Log.Level)) == nil { // package config has validated it
			n.opt.Level.Set(level)
			n.loaded.Log.Level = next.Log.Level
			log.Info("read again", slog.String("setting", key))
		}
	}
	if len(restart) > 0 {
		log.Warn("these settings have changed and take effect after a restart", slog.Any("settings", restart))
	}
}
