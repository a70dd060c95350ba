"""Programs that use xg through its public interface."""
