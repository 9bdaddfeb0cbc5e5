import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The output is the same for the same sources and lock file: no dates, no absolute paths.
export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
    rollupOptions: {
      output: {
        // Hashes alone: a name that said "people" would be met by lists of trackers.
        entryFileNames: "assets/[hash].js",
        chunkFileNames: "assets/[hash].js",
        assetFileNames: "assets/[hash][extname]",
      },
    },
  },
});
