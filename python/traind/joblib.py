"""joblib.py: joblib's calls as jobs of traind. Needs joblib.

    import traind.joblib
    with joblib.parallel_config("traind", n_jobs=8, resources={"memory": "1 GiB"}):
        scores = joblib.Parallel()(joblib.delayed(evaluate)(each) for each in candidates)
"""
from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Callable, Optional

from joblib.parallel import ParallelBackendBase, register_parallel_backend

from .executor import WORKERS, Executor, function_name


class Backend(ParallelBackendBase):
    """Further arguments of parallel_config() are keys of each job's specification."""

    supports_retrieve_callback = True
    _executor: Optional[Executor] = None

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        """How many jobs are in traind's hands at once; -1: as many as is usual. It runs as many as fit."""
        if n_jobs == 0:
            raise ValueError("n_jobs is 0; it must be a number of jobs, or -1")
        return WORKERS if n_jobs is None or n_jobs < 0 else n_jobs

    def configure(self, n_jobs: Optional[int] = None, parallel: Any = None, prefer: Any = None, require: Any = None,
                  **_: Any) -> int:
        """Left out: how joblib's own processes share large arrays (max_nbytes and the like)."""
        self.parallel = parallel
        workers = self.effective_n_jobs(n_jobs)
        self._executor = Executor(workers, **self.backend_kwargs)
        return workers

    def submit(self, func: Any, callback: Optional[Callable[[Future[Any]], object]] = None) -> Future[Any]:
        assert self._executor
        future: Future[Any] = self._executor.submit_named(function_name(func.items[0][0]), func)  # a batch of calls
        if callback:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    def terminate(self) -> None:
        if self._executor:
            self._executor.terminate()
            self._executor = None

    def abort_everything(self, ensure_ready: bool = True) -> None:
        self.terminate()
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel)


register_parallel_backend("traind", Backend)
