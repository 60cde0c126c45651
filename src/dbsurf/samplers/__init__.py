"""How the n samples are drawn. Each sampler works for every supported distribution."""

from dbsurf.samplers.antithetic import Antithetic
from dbsurf.samplers.base import Sampler, UniformSampler
from dbsurf.samplers.dbsample import DBSample
from dbsurf.samplers.dirichlet_copula import DirichletCopula
from dbsurf.samplers.gaussian_copula import GaussianCopula
from dbsurf.samplers.iid import IID
from dbsurf.samplers.min_discrepancy import MinDiscrepancy
from dbsurf.samplers.residual import Residual

__all__ = [
    "IID",
    "Antithetic",
    "DBSample",
    "DirichletCopula",
    "GaussianCopula",
    "MinDiscrepancy",
    "Residual",
    "Sampler",
    "UniformSampler",
]
